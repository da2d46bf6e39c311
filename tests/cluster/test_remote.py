"""DVC's remote on S3 (moto's server, loopback): a fresh clone fetches a whole run and computes nothing."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dvc_commands import done, run

STAGES = """stages:
  words:
    cmd: python -c "import pathlib; pathlib.Path('made').mkdir(); pathlib.Path('made/a').write_text('a' * ${size})"
    params: [size]
    outs: [made]
"""


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A bucket of a server on this machine."""
    pytest.importorskip("dvc_s3", reason="the package dvc-s3 is not installed (the extra s3)")
    server = pytest.importorskip("moto.server", reason="the package moto is not installed (the extra remote-test)")
    import boto3

    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    found = boto3.resource("s3", endpoint_url=f"http://{host}:{port}", **keys).Bucket("runs")
    found.create()
    yield found
    running.stop()


@pytest.fixture(scope="module")
def pushed(bucket: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose run was pushed, with the settings that docs/cluster.md names."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "dvc.yaml").write_text(STAGES, encoding="utf-8")
    (folder / "params.yaml").write_text("size: 5\n", encoding="utf-8")
    done(folder, "git", "init", "-q", ".")
    done(folder, "dvc", "init", "-q")
    done(folder, "dvc", "remote", "add", "-d", "runs", "s3://runs/bleurt")
    done(folder, "dvc", "remote", "modify", "runs", "endpointurl", bucket.meta.client.meta.endpoint_url)
    done(folder, "dvc", "remote", "modify", "runs", "verify", "true")
    done(folder, "dvc", "repro")
    done(folder, "git", "add", ".")
    done(folder, "git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "-m", "run")
    done(folder, "dvc", "push", "--run-cache")
    return folder


def clone(project: Path, folder: Path) -> Path:
    done(project, "git", "clone", "-q", str(project), str(folder))
    return folder


def test_a_fresh_clone_fetches_a_run_and_computes_nothing(pushed: Path, tmp_path: Path) -> None:
    fresh = clone(pushed, tmp_path / "fresh")
    assert not (fresh / "made").exists()
    told = done(fresh, "dvc", "repro", "--pull")
    assert (fresh / "made" / "a").read_text(encoding="utf-8") == "aaaaa"
    assert "Running stage" not in told
    assert "Data and pipelines are up to date." in done(fresh, "dvc", "status")


def test_an_object_that_is_damaged_on_the_remote_is_found(pushed: Path, bucket: Any, tmp_path: Path) -> None:
    (damaged,) = [one.key for one in bucket.objects.all() if one.size == 5 and "/files/md5/" in one.key]
    bucket.put_object(Key=damaged, Body=b"aaaab")
    try:
        fresh = clone(pushed, tmp_path / "fresh")
        pulled = run(fresh, "dvc", "pull")
        assert pulled.returncode != 0
        assert not (fresh / "made" / "a").exists()
    finally:
        bucket.put_object(Key=damaged, Body=b"aaaaa")
    shutil.rmtree(fresh)
