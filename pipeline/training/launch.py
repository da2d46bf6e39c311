"""A training stage in several processes of a Ray cluster that exists (BLEURT_ENGINE=ray, BLEURT_RAY_PROCESSES).

The processes are tasks of Ray that start together and get torchrun's variables, so that they join one group
(`pipeline.training.loop`). Each of them runs the stage's `main` in this process's folder, which all nodes share. If one
fails, is killed or loses its node, all are ended, and the next of `cluster.ATTEMPTS` continues from the state in
`.work`; a BleurtError ends the stage at once. (Ray Train would do the same with three processes more, a traceback for
every failure, and a dashboard that it asks for its state.)
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pipeline.core import cluster, runtime, work
from pipeline.core.errors import BleurtError, ParamsError

GRACE_SECONDS = 5.0
"""When one process has failed, the others have so long to say why they did: one of them may know the reason."""


def launch(main: Callable[[], None]) -> None:
    """Run `main` of a training stage: here, or in BLEURT_RAY_PROCESSES processes if BLEURT_ENGINE is ray."""
    count = processes()
    if runtime.engine() == "local" or not count or "RANK" in os.environ:
        main()
        return
    if runtime.ray_files() == "store":
        raise ParamsError("BLEURT_RAY_PROCESSES needs a folder that all nodes share: BLEURT_RAY_FILES cannot be store.")
    gpus = 1 if runtime.ray_gpus() else 0  # processes of one group cannot share a GPU
    variables = {**cluster.variables_of_a_task(gpus), "BLEURT_ENGINE": "local"}
    ray = cluster.joined()
    name = f"{Path(sys.argv[0]).parent.name} in {count} processes"
    with cluster.witness_in(work.WORK) as witness, _reserved(ray, name, count, gpus) as group:
        submit = _submitter(ray, main, name, gpus, cluster.place_of(variables, witness), group)
        for attempt in range(1, cluster.ATTEMPTS + 1):
            failure = _attempt(ray, submit, count)
            if not failure:
                return
            if attempt < cluster.ATTEMPTS:
                print(f"{name} failed: {failure}; attempt {attempt + 1} of {cluster.ATTEMPTS}", flush=True)
    raise BleurtError(f"{name} failed {cluster.ATTEMPTS} times on the cluster; the last time: {failure}.")


def processes() -> int:
    """Processes of a training on a Ray cluster, by BLEURT_RAY_PROCESSES; 0 (default): training is not Ray's."""
    text = os.environ.get("BLEURT_RAY_PROCESSES", "") or "0"
    if not text.isdigit():
        raise ParamsError(f"BLEURT_RAY_PROCESSES must be a whole number, not {text!r}.")
    return int(text)


@contextlib.contextmanager
def _reserved(ray: Any, name: str, count: int, gpus: int) -> Iterator[Any]:
    """The cores and GPUs of all processes at once, so that none of them waits for the others for ever."""
    group = ray.util.placement_group([{"CPU": 1, "GPU": gpus} if gpus else {"CPU": 1}] * count)
    try:
        if not group.wait(cluster.PATIENCE_SECONDS):
            asked = f"{count} free cores and GPUs (BLEURT_RAY_GPUS)" if gpus else f"{count} free cores"
            print(f"{name}: the cluster has not {asked}; waiting for them", flush=True)
            while not group.wait(cluster.PATIENCE_SECONDS):
                pass
        yield group
    finally:
        ray.util.remove_placement_group(group)


def _submitter(ray: Any, main: Callable[[], None], name: str, gpus: int, place: Any, group: Any) -> Callable[..., Any]:
    """A function that submits the process with torchrun's variables, and gives the reference of its answer."""
    from pipeline.core import node

    ray.cloudpickle.register_pickle_by_value(node)
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0, max_calls=1, scheduling_strategy=strategy)(node.train)
    placed, pickled = ray.put(place), ray.put(ray.cloudpickle.dumps(main))

    def submit(ranked: dict[str, str]) -> Any:
        named = remote.options(name=f"{name}: {ranked['RANK']}")
        return named.remote(placed, pickled, list(sys.argv), ranked)

    return submit


def _attempt(ray: Any, submit: Callable[[dict[str, str]], Any], count: int) -> str:
    """Start all processes and wait for them; empty, or why the first of them failed. A BleurtError is raised."""
    import torch.distributed

    distributed: Any = torch.distributed  # mypy does not see its TCPStore
    host, failures = ray.util.get_node_ip_address(), list[str]()
    store = distributed.TCPStore(host, 0, is_master=True, wait_for_workers=False)
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": host, "MASTER_PORT": str(store.port)}
    shared |= {"LOCAL_RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"}  # each sees its own GPU; they meet at `store`
    running = [submit({**shared, "RANK": str(rank)}) for rank in range(count)]
    try:
        while running:
            finished, running = ray.wait(running, timeout=GRACE_SECONDS if failures else None)
            if not finished:
                break
            failures += filter(None, (cluster.answer_of(ray, one)[1] for one in finished))
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
    return failures[0] if failures else ""
