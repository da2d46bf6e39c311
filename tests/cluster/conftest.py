"""A Ray cluster on this machine: a head without cores, and two nodes whose temporary folders are their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STORE_BYTES = 80_000_000

SETTINGS = {"RAY_worker_niceness": "0", "RAY_enable_worker_prestart": "0", "RAY_prestart_worker_first_driver": "0"}
"""Ray's own: workers as fast as tests (else they have the lowest priority), and only as many as there are tasks."""


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The cluster; the nodes' temporary folders are `one` and `two` in its attribute `folder`."""
    ray = pytest.importorskip("ray", reason="the package ray is not installed (the extra ray)")
    from ray.cluster_utils import Cluster

    environment = pytest.MonkeyPatch()
    for name, value in SETTINGS.items():
        environment.setenv(name, value)
    folder: Path = tmp_path_factory.mktemp("nodes")
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.folder = folder
    for name in ("one", "two"):
        (folder / name).mkdir()
        cluster.add_node(
            num_cpus=1, object_store_memory=STORE_BYTES, env_vars={"TMPDIR": str(folder / name)}, wait=False
        )
    cluster.wait_for_nodes(timeout=120)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    environment.undo()
