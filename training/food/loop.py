"""The training loop that teacher and student share, on one process or many."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedModel

from training.attention import attend_in_fp32
from training.bottleneck.clock import Clock
from training.errors import TrainingError
from training.food import checkpoint
from training.food.batches import Batch, Batches
from training.food.distributed import Processes
from training.food.ema import Average
from training.food.learner import Answers, Learner
from training.food.preprocessing import Preprocessing
from training.food.progress import console
from training.food.run_folder import RunFolder
from training.food.schedule import parameter_groups, ramp
from training.food.timing import Timing

# What does not change the weights that a run ends with, and so may change when it is resumed.
FREE = {"checkpoint_steps", "log_steps", "threads", "zero"}

Objective = Callable[[Answers, Batch], Tensor]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train; `warm_up` is a share of the steps, `clip` the largest gradient norm, `ema` a decay, 0 for none."""

    epochs: int
    lr: float
    layer_decay: float = 1.0
    frozen: int = 0
    relative: bool = False
    weight_decay: float = 0.05
    warm_up: float = 0.1
    clip: float = 1.0
    ema: float = 0.0
    bf16: bool = False
    zero: bool = False
    seed: int = 20
    checkpoint_steps: int = 0
    log_steps: int = 10
    threads: int = 0


@dataclass(slots=True)
class Trainer:
    """Trains `learner` in place on `objective`; `see` is its preprocessing.

    `epoch_end` gets the network as it would be stored (the average, when there is one) and returns figures for the
    log; `keep` stores the network.
    """

    learner: Learner
    see: Preprocessing
    batches: Batches
    objective: Objective
    plan: Plan
    folder: RunFolder
    epoch_end: Callable[[PreTrainedModel], dict[str, Any]]
    keep: Callable[[PreTrainedModel], None]
    timing: Timing = dataclasses.field(default_factory=Timing)

    @property
    def processes(self) -> Processes:
        """The processes that share the work."""
        return self.batches.processes

    def settings(self) -> dict[str, Any]:
        """Return what a resumed run must have in common with this one."""
        plan = {name: value for name, value in dataclasses.asdict(self.plan).items() if name not in FREE}
        how = dataclasses.asdict(self.batches.how)
        return plan | how | {"batch": self.batches.size, "photos": len(self.batches.photos)}

    def run(self) -> dict[str, Any]:
        """Train to the end of the plan, from the last checkpoint when the folder has one; return the last figures.

        Raises TrainingError when the loss or the gradient is no longer finite; the last checkpoint stays as it is.
        """
        plan, processes = self.plan, self.processes
        self.batches.check()
        self.learner.to(processes.device).train()
        if plan.bf16 and processes.device.type == "cpu":
            attend_in_fp32(self.learner.model)
        optimizer, rates = self._optimizer()
        average = Average(self.learner.model, plan.ema) if plan.ema else None
        start = self._resume(optimizer, average)
        with self.timing.clock(processes, start, threads=plan.threads, bf16=plan.bf16) as clock:
            figures = self._steps(start, optimizer, rates, average, clock)
        return figures | {"optimizer_bytes": processes.gather(state_bytes(optimizer))}

    def _steps(
        self,
        start: int,
        optimizer: torch.optim.Optimizer,
        rates: list[float],
        average: Average | None,
        clock: Clock,
    ) -> dict[str, Any]:
        plan, processes = self.plan, self.processes
        network: nn.Module = self.learner
        if processes.world > 1:
            network = DistributedDataParallel(self.learner)
            self.timing.watch(network, clock)
        stop = plan.epochs * self.batches.per_epoch
        figures = dict[str, Any]()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        steps = iter(self.batches.steps(start, stop, plan.threads))
        with Progress(*columns, console=console, disable=not processes.first, transient=True) as bar:
            task = bar.add_task("train", total=stop, completed=start)
            losses = list[float]()
            for step in range(start, stop):
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * ramp(step, stop, plan.warm_up)
                torch.manual_seed(plan.seed + 1_000_003 * step + processes.rank)  # dropout's
                with clock.phase("data"):
                    parts = [part.to(processes.device) for part in next(steps)]
                losses.append(self._step(network, optimizer, parts, step, clock))
                if average is not None:
                    average.update(self.learner.model, step)
                clock.step(self.batches.size // processes.world)
                done = step + 1
                bar.update(task, completed=done, description=f"loss {losses[-1]:.3f}")
                if done % plan.log_steps == 0 and processes.first:
                    self.folder.log(step=done, epoch=step / self.batches.per_epoch, loss=losses[-1])
                ended = done % self.batches.per_epoch == 0
                if ended:
                    figures = self._score(average, done, losses)
                    losses = []
                if ended or (plan.checkpoint_steps and done % plan.checkpoint_steps == 0):
                    self._checkpoint(optimizer, average, done)
        return figures

    def _optimizer(self) -> tuple[torch.optim.Optimizer, list[float]]:
        """Return AdamW, sharded over the processes if the plan says so, and the peak rate of each of its groups."""
        plan = self.plan
        options = {"layer_decay": plan.layer_decay, "frozen": plan.frozen, "relative": plan.relative}
        groups = parameter_groups(self.learner.model, plan.lr, **options)  # type: ignore[arg-type]
        if self.learner.projections:
            groups.append({"params": list(self.learner.projections.parameters()), "lr": plan.lr})
        settings: dict[str, Any] = {"lr": plan.lr, "weight_decay": plan.weight_decay, "fused": True}
        optimizer: torch.optim.Optimizer
        if plan.zero and self.processes.world > 1:
            optimizer = ZeroRedundancyOptimizer(groups, torch.optim.AdamW, **settings)
        else:
            optimizer = torch.optim.AdamW(groups, **settings)
        return optimizer, [group["lr"] for group in groups]

    def _step(
        self, network: nn.Module, optimizer: torch.optim.Optimizer, parts: list[Batch], step: int, clock: Clock
    ) -> float:
        """Take one step; return its loss, the mean over all processes and parts."""
        total = torch.zeros((), device=self.processes.device)
        device = self.processes.device.type
        for part in parts:
            last = part is parts[-1]
            alone = nullcontext() if last or self.processes.world == 1 else network.no_sync()  # type: ignore[operator]
            with alone:
                with clock.phase("forward"), torch.autocast(device, torch.bfloat16, enabled=self.plan.bf16):
                    answers = network(self.see(part.views))
                    loss = self.objective(answers, part) / len(parts)
                with clock.phase("backward"):
                    loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        with clock.phase("communication"):
            value = float(self.processes.mean(total))
        with clock.phase("optimizer"):
            learning = [parameter for parameter in self.learner.parameters() if parameter.requires_grad]
            norm = float(torch.nn.utils.clip_grad_norm_(learning, self.plan.clip))
            if not (torch.isfinite(torch.tensor([value, norm])).all()):
                raise TrainingError(self._lost(step))
            optimizer.step()
            optimizer.zero_grad()
        return value

    def _lost(self, step: int) -> str:
        kept = checkpoint.found(self.folder.states)
        state = f"the model of {kept[-1].name} is in {self.folder.path}" if kept else "no checkpoint was written yet"
        return f"The loss is no longer finite in step {step + 1}; {state}. Lower --lr, or train without --bf16."

    def _score(self, average: Average | None, done: int, losses: list[float]) -> dict[str, Any]:
        if not self.processes.first:
            return {}
        epoch = done // self.batches.per_epoch
        figures: dict[str, Any] = {"train_loss": sum(losses) / len(losses)}
        stored = average.model if average else self.learner.model
        figures |= self.epoch_end(stored.eval())
        self.learner.train()
        self.folder.log(step=done, epoch=epoch, **figures)
        shown = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
        console.print(f"epoch {epoch}: {shown}")
        return figures

    def _checkpoint(self, optimizer: torch.optim.Optimizer, average: Average | None, done: int) -> None:
        if isinstance(optimizer, ZeroRedundancyOptimizer):
            optimizer.consolidate_state_dict(to=0)
        if self.processes.first:
            state = checkpoint.Checkpoint(
                done,
                self.learner.state_dict(),
                average.model.state_dict() if average else None,
                optimizer.state_dict(),
                self.settings(),
            )
            checkpoint.save(self.folder.states, state)
            self.keep(average.model if average else self.learner.model)
        self.processes.wait()

    def _resume(self, optimizer: torch.optim.Optimizer, average: Average | None) -> int:
        state = checkpoint.load_last(self.folder.states)
        if state is None:
            return 0
        mine = self.settings()
        changed = sorted(name for name in mine if state.plan.get(name) != mine[name])
        if changed:
            was = ", ".join(f"{name} = {state.plan.get(name)}" for name in changed)
            raise TrainingError(f"The run to resume had {was}: pass the same, or train in a new folder.")
        self.learner.load_state_dict(state.weights)
        if average is not None and state.average is not None:
            average.model.load_state_dict(state.average)
        optimizer.load_state_dict(state.optimizer)
        if self.processes.first:
            self.folder.rewind(state.step)
            console.print(f"going on after step {state.step}")
        return state.step


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Return the bytes of this process's share of the optimizer's state."""
    mine = optimizer.optim if isinstance(optimizer, ZeroRedundancyOptimizer) else optimizer
    tensors = [value for state in mine.state.values() for value in state.values() if isinstance(value, Tensor)]
    return sum(tensor.nbytes for tensor in tensors)
