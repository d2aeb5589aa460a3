"""Data parallelism for an elastic run: gradients are summed by libshoal while backward computes further ones, without
torch.distributed.

Gradients lie in one array for each device and type, in the order of ``parameters()`` reversed, cut into buckets. A bucket is
begun when hooks have brought all its gradients and the buckets before it are begun, so that all ranks sum the same arrays in
the same order; what is left begins when backward is over. Behind the last gradients lies a number for each parameter: how many
ranks had a gradient.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ._elastic import ElasticRun
from ._errors import ShoalError, StepLost
from ._library import BACKWARD, FORWARD
from ._run import init

_KINDS = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}  # enum shoal_type
_BUCKET_BYTES = 25 << 20
_BUCKETS_MAX = 48  # of the 64 arrays that may be begun
_ALIGNMENT = 64  # bytes


class _Bucket:
    """Gradients that are summed together."""

    def __init__(self, array: tuple[torch.device, torch.dtype], first: int) -> None:
        self.array = array
        self.first, self.end = first, first  # elements of the array
        self.members: list[int] = []
        self.missing = 0  # gradients of this backward that no hook has brought yet
        self.flat: Any = None


def _check_module(module: torch.nn.Module) -> None:
    for name, each in module.named_modules():
        where = f"{name} is a {type(each).__name__}" if name else f"The module is a {type(each).__name__}"
        if isinstance(each, torch.nn.SyncBatchNorm):
            raise ShoalError(
                f"{where}, which needs torch.distributed, and would see one rank only; use BatchNorm, or LayerNorm."
            )
        kinds = {kind.__name__ for kind in type(each).__mro__}
        if kinds & {"FullyShardedDataParallel", "FSDPModule"}:
            raise ShoalError(
                f"{where}, whose parameters are spread over the ranks; an elastic run needs all of them on each rank."
            )
        if isinstance(each, (torch.nn.parallel.DistributedDataParallel, DistributedDataParallel)):
            raise ShoalError(f"{where}, which sums gradients itself; give the module without it.")
        if getattr(each, "sparse", False) and isinstance(each, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            raise ShoalError(f"{where} with sparse gradients, which are not summed; make it with sparse=False.")
    for name, parameter in module.named_parameters():
        if type(parameter).__name__ == "DTensor" or "DTensor" in type(parameter.data).__name__:
            raise ShoalError(
                f"{name} is a DTensor, spread over the ranks by FSDP; an elastic run needs all of it on each rank."
            )
        if parameter.requires_grad and parameter.dtype not in _KINDS:
            raise ShoalError(
                f"{name} is {str(parameter.dtype).replace('torch.', '')}, and gradients are summed in float32, float16 or"
                " bfloat16; convert the module, for example by module.float()."
            )


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _tensors(getattr(value, name, None))


def _settle_stream(device: torch.device) -> None:
    """libshoal waits for the default stream only."""
    if device.type == "cuda":
        stream = torch.cuda.current_stream(device)
        if stream != torch.cuda.default_stream(device):
            stream.synchronize()


class DistributedDataParallel(torch.nn.Module):
    """A module whose gradients are averaged over the ranks of an elastic run when ``backward()`` returns, in the place of
    ``torch.nn.parallel.DistributedDataParallel``::

        model = shoal.torch.DistributedDataParallel(net)

    Gradients count by the parts of the batch that the ranks had (`ElasticRun.batches`), else alike. A parameter that no rank
    has used keeps its ``grad`` of None; one that some ranks have used gets the same gradient on all. Buffers are rank 0's in
    each forward of a step. ``backward()`` raises `StepLost` if a rank is lost. Wrap after ``torch.compile``, and after moving
    the module to its device. The optimiser, ``zero_grad`` of either kind, clipping and a GradScaler need nothing more.

    module: gives tensors, or lists, maps or dataclasses of them. Parameters of float32, float16 and bfloat16.
    broadcast_buffers: as PyTorch's.
    bucket_cap_mb: the least size of what is summed at a time, in MiB.
    run: default: `shoal.init`'s.

    ShoalError: the run is not elastic; or the module has SyncBatchNorm, sparse gradients, parameters of another type, or is
    wrapped by FSDP or PyTorch's DistributedDataParallel already.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        broadcast_buffers: bool = True,
        bucket_cap_mb: float = _BUCKET_BYTES / (1 << 20),
        run: ElasticRun | None = None,
    ) -> None:
        super().__init__()
        _check_module(module)
        found = init() if run is None else run
        if not isinstance(found, ElasticRun):
            raise ShoalError("shoal.torch.DistributedDataParallel is for a run of shoal.init(elastic=True).")
        mine = {id(p) for p in module.parameters() if p.requires_grad}
        if any(id(p) in mine for other in found._parallels for p in other._parameters_of):
            raise ShoalError("The module has parameters that are wrapped already, so their gradients would be summed twice.")
        self.module = module
        self._run = found
        self._broadcasts, self._syncs = broadcast_buffers, True
        self._parameters_of: list[torch.nn.Parameter] = [p for p in module.parameters() if p.requires_grad]
        self._names = [name for name, p in module.named_parameters() if p.requires_grad]
        self._shapes = [(p.device, p.dtype, p.shape) for p in self._parameters_of]
        self._parameters_of.reverse()
        self._names.reverse()
        self._shapes.reverse()
        self._lay_out(int(bucket_cap_mb * (1 << 20)))
        self._views: list[torch.Tensor] = []  # of the arrays, once there is a group of several ranks
        self._flags: Any = None
        count = len(self._parameters_of)
        self._used = bytearray(count)  # since the last sum: brought by a hook
        self._fired = bytearray(count)  # in this backward
        self._is_queued, self._next = False, 0
        self._backward_ns = 0  # when this backward began
        self._sums, self._version = 0, 0  # in this step; before it
        self._failure: ShoalError | None = None
        self._room: Any = None  # for buffers on their way
        self._buffers_before: Any = None
        self._hooks = [self._hook(i, p) for i, p in enumerate(self._parameters_of)]
        if any(p.device.type == "cuda" for p in self._parameters_of) and found._group is not None and not found._entered:
            found._use_gpu()
        found._parallels.append(self)

    # ---- the layout ----

    def _lay_out(self, least: int) -> None:
        total = sum(p.numel() * p.element_size() for p in self._parameters_of)
        size = max(least, total // _BUCKETS_MAX)
        self._sizes: dict[tuple[torch.device, torch.dtype], int] = {}
        self._places: list[int] = []
        self._buckets: list[_Bucket] = []
        self._bucket_of: list[_Bucket] = []
        open_buckets: dict[tuple[torch.device, torch.dtype], _Bucket] = {}
        for i, p in enumerate(self._parameters_of):
            array = (p.device, p.dtype)
            at = self._sizes.get(array, 0)
            bucket = open_buckets.get(array)
            if bucket is None:
                bucket = open_buckets[array] = _Bucket(array, at)
                self._buckets.append(bucket)
            step = _ALIGNMENT // p.element_size()
            bucket.members.append(i)
            bucket.end = self._sizes[array] = at + -(-p.numel() // step) * step
            self._places.append(at)
            self._bucket_of.append(bucket)
            if (bucket.end - bucket.first) * p.element_size() >= size:
                del open_buckets[array]
        self._buckets.sort(key=lambda bucket: bucket.members[-1])
        if self._buckets:  # the flags lie behind the last bucket, if its array ends with it
            last = self._buckets[-1]
            last.end += len(self._parameters_of)
            self._sizes[last.array] = last.end

    def _make_arrays(self) -> None:
        group = self._run._group
        assert group is not None
        arrays: dict[tuple[torch.device, torch.dtype], Any] = {}
        for (device, dtype), count in self._sizes.items():
            if device.type == "cpu":
                room = group.memory(count * torch.empty(0, dtype=dtype).element_size())
                arrays[device, dtype] = torch.frombuffer(room, dtype=dtype)[:count]
            else:
                arrays[device, dtype] = torch.zeros(count, dtype=dtype, device=device)
        for i, p in enumerate(self._parameters_of):
            device, dtype, shape = self._shapes[i]  # p may have moved; that is told of when its gradient is there
            flat = arrays[device, dtype][self._places[i] : self._places[i] + p.numel()]
            self._views.append(flat.as_strided(shape, torch.empty_like(p).stride(), flat.storage_offset()))
        for bucket in self._buckets:
            bucket.flat = arrays[bucket.array][bucket.first : bucket.end]
        if self._buckets:
            self._flags = self._buckets[-1].flat[-len(self._parameters_of) :]

    # ---- forward ----

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Forwards in this block sum nothing: their gradients are added up on each rank, and travel with the next that sums."""
        before, self._syncs = self._syncs, False
        try:
            yield
        finally:
            self._syncs = before

    def forward(self, *arguments: Any, **named: Any) -> Any:
        run = self._run
        is_step = torch.is_grad_enabled() and run._in_block and run.size > 1
        if is_step and self._broadcasts:
            self._share_buffers()
        began_ns = time.monotonic_ns()
        out = self.module(*arguments, **named)
        if is_step and run._group is not None:
            run._group.span(FORWARD, began_ns)
        if torch.is_grad_enabled() and self._syncs and (is_step or not run._in_block):
            tensors = list(_tensors(out))
            if is_step and not tensors:
                raise ShoalError(
                    f"The module gave a {type(out).__name__}, in which no tensor is found; give tensors, or lists, maps or"
                    " dataclasses of them."
                )
            for tensor in tensors:
                if tensor.requires_grad:
                    watched: Any = tensor
                    watched.register_hook(self._begin_backward)
        return out

    def _buffer_places(self) -> list[tuple[torch.Tensor, int, int]]:
        places, at = [], 0
        for buffer in self.module.buffers():
            count = buffer.numel() * buffer.element_size()
            if count > 0:
                places.append((buffer, at, count))
                at += -(-count // _ALIGNMENT) * _ALIGNMENT
        return places

    @torch.no_grad()
    def _share_buffers(self) -> None:
        places = self._buffer_places()
        if not places:
            return
        end = places[-1][1] + places[-1][2]
        device = places[0][0].device
        if self._room is None or self._room.numel() != end or self._room.device != device:
            self._room = torch.zeros(end, dtype=torch.uint8, device=device)
        for buffer, at, count in places:
            self._room[at : at + count].copy_(buffer.detach().reshape(-1).view(torch.uint8))
        if self._syncs:
            _settle_stream(device)
            try:
                assert self._run._group is not None
                self._run._group.broadcast_at(self._room.data_ptr(), end, "Sharing buffers")
            except StepLost:
                self._run._lost()
                raise
            if self._run.rank != 0:
                self._set_buffers(self._room)
        if self._buffers_before is None:
            self._buffers_before = self._room.clone()

    @torch.no_grad()
    def _set_buffers(self, room: torch.Tensor) -> None:
        for buffer, at, count in self._buffer_places():
            buffer.copy_(room[at : at + count].view(buffer.dtype).view(buffer.shape))

    # ---- backward ----

    def _hook(self, number: int, parameter: torch.nn.Parameter) -> Any:
        def on_gradient(*_ignored: Any) -> None:
            self._bring(number)

        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            watched: Any = parameter
            return watched.register_post_accumulate_grad_hook(on_gradient)
        expanded: Any = parameter.expand_as(parameter)
        accumulator: Any = expanded.grad_fn.next_functions[0][0]
        return accumulator, accumulator.register_hook(on_gradient)  # without a reference the hook would never be called

    def _begin_backward(self, gradient: torch.Tensor) -> None:
        """On an output, so in the outermost backward: a parameter's own hook may lie in a re-entrant one, which ends sooner."""
        del gradient
        if self._is_queued:
            return
        if not self._run._in_block and (self._run.size > 1 or self._run.in_shoal):
            raise ShoalError("backward() was called outside of `with run.step():`, in which gradients are summed.")
        if self._run.size == 1:
            return
        self._is_queued, self._next, self._failure = True, 0, None
        self._backward_ns = time.monotonic_ns()
        self._fired = bytearray(len(self._fired))
        for bucket in self._buckets:
            bucket.missing = len(bucket.members)
        engine: Any = torch.autograd.Variable._execution_engine
        engine.queue_callback(self._end_backward)

    def _bring(self, number: int) -> None:
        self._used[number] = 1
        if not self._is_queued:
            return
        bucket = self._bucket_of[number]
        if self._fired[number]:
            if bucket.missing == 0 and self._buckets.index(bucket) < self._next:
                self._failure = self._failure or ShoalError(
                    f"{self._names[number]} got a second gradient in one backward(), after the first was on its way, as in"
                    " re-entrant checkpoints that share it; use checkpoint(..., use_reentrant=False)."
                )
            return
        self._fired[number] = 1
        bucket.missing -= 1
        if len(self._run._parallels) == 1:  # several modules' buckets would come in another order on each rank
            while self._next < len(self._buckets) and self._buckets[self._next].missing == 0 and self._failure is None:
                self._begin_next()

    def _fail(self, number: int, why: str) -> None:
        self._failure = self._failure or ShoalError(f"{self._names[number]} {why}.")

    @torch.no_grad()
    def _begin_next(self) -> None:
        """Begins the sum of the next bucket. An error is kept: it is raised when backward is over."""
        if not self._views:
            self._make_arrays()
        bucket = self._buckets[self._next]
        self._next += 1
        weight = self._run.weight
        for i in bucket.members:
            parameter, view = self._parameters_of[i], self._views[i]
            gradient = parameter.grad
            if gradient is None:
                view.zero_()
            elif gradient.is_sparse:
                self._fail(i, "has a sparse gradient, which is not summed; make its layer with sparse=False")
            elif (parameter.device, parameter.dtype, parameter.shape) != self._shapes[i]:
                self._fail(i, "has moved or changed its type since it was wrapped; wrap the module after module.to(...)")
            elif gradient.data_ptr() == view.data_ptr():
                view.mul_(weight)
            else:
                torch.mul(gradient, weight, out=view)
                parameter.grad = view
        if bucket is self._buckets[-1]:
            self._flags.copy_(torch.frombuffer(self._used, dtype=torch.uint8))
        if self._failure is not None:
            return
        _settle_stream(bucket.array[0])
        group = self._run._group
        assert group is not None
        try:
            group.sum_begin(bucket.flat.data_ptr(), bucket.flat.numel(), _KINDS[bucket.array[1]])
        except ShoalError as error:
            self._failure = error

    def _end_backward(self) -> None:
        """When the outermost backward is over: sums what is left, and waits."""
        self._is_queued = False
        group = self._run._group
        assert group is not None
        while self._next < len(self._buckets) and self._failure is None:
            self._begin_next()
        failure, self._failure = self._failure, None
        try:
            group.sum_wait()
        except ShoalError as error:
            failure = failure or error
        group.span(BACKWARD, self._backward_ns)
        if isinstance(failure, StepLost):
            self._run._lost()
        if failure is not None:
            raise failure
        self._sums += 1
        used, self._used = self._used, bytearray(len(self._used))
        if not all(used):
            some = (self._flags > 0).tolist()
            for i, parameter in enumerate(self._parameters_of):
                if not used[i] and (some[i] or parameter.grad is not None):
                    parameter.grad = self._views[i]

    # ---- steps ----

    def _begin_step(self) -> None:
        self._is_queued, self._failure, self._buffers_before = False, None, None
        self._used = bytearray(len(self._used))
        self._sums, self._version = 0, self._versions()

    def _versions(self) -> int:
        """Changes when an optimiser changes a parameter."""
        return sum(p._version for p in self._parameters_of)

    def _is_summed(self) -> bool:
        """At the end of a step: no gradients of this rank alone were applied."""
        return self._sums > 0 or not any(self._used) or self._versions() == self._version

    def _drop_step(self) -> None:
        for parameter in self._parameters_of:
            parameter.grad = None
        if self._buffers_before is not None:
            self._set_buffers(self._buffers_before)
        self._is_queued, self._buffers_before = False, None

    def _release(self) -> None:
        """Before the arrays' memory is given back."""
        for parameter, view in zip(self._parameters_of, self._views):
            if parameter.grad is not None and parameter.grad.data_ptr() == view.data_ptr():
                parameter.grad = parameter.grad.clone()
        self._views, self._flags = [], None
        for bucket in self._buckets:
            bucket.flat = None
