# DP-SGD Explorer: nginx, pages and worker in one container.
#   docker build -t dpsgd-explorer . && docker run -p 127.0.0.1:8000:8000 dpsgd-explorer
FROM python:3.11-slim AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# hadolint ignore=DL3008
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && python -m venv /opt/venv
WORKDIR /build
COPY requirements.txt ./
COPY tools/install.py tools/
RUN TORCH_INDEX="$TORCH_INDEX" /opt/venv/bin/python tools/install.py requirements.txt \
    # what only compiling against torch needs, and pip itself
    && rm -rf /opt/venv/lib/python3*/site-packages/torch/include \
    && /opt/venv/bin/python -m pip uninstall -y pip
WORKDIR /app
COPY app.py LICENSE NOTICE ./
COPY dpsgd_explorer dpsgd_explorer
COPY pyproject.toml ./
COPY tools/compile_noise.py tools/
COPY templates templates
COPY static static
RUN /opt/venv/bin/python tools/compile_noise.py \
    && rm -r tools pyproject.toml \
    && /opt/venv/bin/python -m compileall -q dpsgd_explorer

# The pages of the API import the library, so this stage has its packages, torch too.
FROM build AS docs
COPY requirements-docs.txt ./
RUN PIP_PYTHON=/opt/venv/bin/python python /build/tools/install.py requirements-docs.txt
COPY CHANGELOG.md CONTRIBUTING.md SECURITY.md CODE_OF_CONDUCT.md ./
COPY tools/build_docs.py tools/
COPY docs docs
RUN /opt/venv/bin/python -m tools.build_docs

FROM python:3.11-slim
# hadolint ignore=DL3008
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends nginx-light \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /app explorer \
    && mkdir -p /app/instance && chown 10001 /app/instance
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app /app
COPY --from=docs /app/built_docs /app/built_docs
WORKDIR /app
USER 10001
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOST=0.0.0.0 \
    DPSGD_FRONT=nginx \
    PORT=8000 \
    DPSGD_INSTANCE_DIR=/app/instance
VOLUME /app/instance
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/readyz', timeout=4)"]
STOPSIGNAL SIGTERM
CMD ["python", "-m", "dpsgd_explorer", "serve"]
