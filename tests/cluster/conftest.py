"""A Ray cluster on this machine: a head without cores, and two nodes whose temporary folders are their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STORE_BYTES = 80_000_000

LIMIT_SECONDS = 300
"""A test that takes longer fails; with its fixtures it takes half a minute where nothing else runs."""

SETTINGS = {"RAY_worker_niceness": "0", "RAY_enable_worker_prestart": "0", "RAY_prestart_worker_first_driver": "0"}
"""Ray's own: workers as fast as tests (else they have the lowest priority), and only as many as there are tasks."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A cluster that hangs must not hold up all tests."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(LIMIT_SECONDS))


@pytest.fixture(scope="session")
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
