"""Processes with ranks, kept for all tests of a module; they run the jobs of `jobs`.

A job's exception is its answer, so that a test sees what every rank says.
"""

import datetime
import multiprocessing
from contextlib import contextmanager

#: The parent of all ranks loads torch once.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.dp.distributed.jobs"])
#: After it a rank that waits for another one gives up; slow machines need some.
PATIENCE_S = 60


@contextmanager
def ranks(size, folder, patience_s=PATIENCE_S):
    """Yield a function ``run(job, **arguments)`` that returns the ranks' answers."""
    pipes, processes = [], []
    for rank in range(size):
        ours, theirs = FORKS.Pipe()
        process = FORKS.Process(
            target=serve, args=(rank, size, str(folder / "store"), patience_s, theirs)
        )
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)

    def run(job, **arguments):
        for pipe in pipes:
            pipe.send((job, arguments))
        return [answer(pipe) for pipe in pipes]

    try:
        yield run
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(PATIENCE_S)
            process.kill()


def answer(pipe):
    """Return what a rank answers; None if it is dead."""
    try:
        return pipe.recv()
    except EOFError:
        return None


def serve(rank, size, store, patience_s, pipe):
    """Run jobs until the pipe closes."""
    import torch.distributed as dist

    from tests.dp.distributed import jobs

    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=patience_s),
    )
    while True:
        try:
            job, arguments = pipe.recv()
        except EOFError:
            break
        try:
            pipe.send(getattr(jobs, job)(**arguments))
        except Exception as error:  # the answer of this job
            pipe.send(error)
    dist.destroy_process_group()
