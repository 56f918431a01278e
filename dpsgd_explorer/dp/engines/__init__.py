"""Gradient engines: four ways to compute the clipped sum of per-sample gradients.

DP-SGD (Abadi et al. 2016, arXiv:1607.00133, algorithm 1) needs, of a batch of B samples
with gradients g_1 .. g_B, the norms ||g_i|| and then the sum of w_i g_i with
w_i = min(1, C / ||g_i||).  Autograd computes the sum of g_i only.  The four engines
compute equal norms and sums up to rounding:

| ``engine=`` | module | how | per-sample gradients in memory |
|---|---|---|---|
| "hooks" | ``hooks`` | algebra on inputs and output gradients | few |
| "extending" | ``extending`` | as "hooks", by autograd functions of layers | few |
| "vmap" | ``vmap`` | one copy of the parameters per sample | all B |
| "microbatch" | ``microbatch`` | one backward per sample | one |

Notation: B samples, T positions (tokens, pixels), d inputs and p outputs of a layer;
*activations* are the tensors that a layer's call saves, usually the input x [B, T, d];
*backprops* are the gradient g of the loss with respect to the output [B, T, p].

A reader begins with ``base`` (the interface) and ``microbatch`` (the definition in
code), then follows a step of "hooks":

1. ``coverage`` finds the rule of each trainable layer;
2. ``recording`` saves the activations of each layer's call in the forward pass, with
   ``batch_dims`` to find the dimension of the samples;
3. ``backprop_capture`` collects the backprops in the backward pass; if gradients are
   small, ``recording`` computes them then and frees inputs and backprops;
4. ``norm_choice`` chooses per layer between ghost norm and instantiated gradient;
5. ``layer_calls`` computes norms and weighted sums of one call.  ``call_groups`` adds
   the calls of one parameter, and ``joined_calls`` computes many layers in one call.
   ``deferred_gradients`` does all of this in chunks of the batch.
"""
