# SPDX-License-Identifier: Apache-2.0
"""The example manifests of clusters, against the published schemas; nothing is downloaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MANIFESTS = EXAMPLES / "cluster"
KUBERNETES = "1.28"


def read(name):
    """Returns a manifest."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((MANIFESTS / name).read_text(encoding="utf-8"))


def test_the_tfjob_has_the_fields_of_kubeflow():
    """Kubeflow's own classes read the TFJob, and no field of it is unknown to them."""
    training = pytest.importorskip("kubeflow.training")
    client = pytest.importorskip("kubernetes.client").ApiClient()
    manifest = read("tfjob.yaml")

    class Response:
        data = json.dumps(manifest)

    kept = training.ApiClient().deserialize(Response, "KubeflowOrgV1TFJob")
    assert client.sanitize_for_serialization(kept) == manifest


def test_the_pods_of_the_tfjob():
    """Kubernetes' schema accepts the pods of all replicas."""
    validator = pytest.importorskip("kubernetes_validate")
    replicas = read("tfjob.yaml")["spec"]["tfReplicaSpecs"]
    assert set(replicas) == {"Chief", "Worker", "PS", "Evaluator"}
    for replica in replicas.values():
        pods = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "pods"},
            "template": replica["template"],
        }
        validator.validate(pods, KUBERNETES, strict=True)
        (container,) = replica["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"


def test_the_custom_job_has_the_fields_of_vertex_ai():
    """Vertex AI's proto reads the specification of the job, and no field is unknown to it."""
    types = pytest.importorskip("google.cloud.aiplatform_v1.types")
    json_format = pytest.importorskip("google.protobuf.json_format")
    manifest = read("vertex_custom_job.yaml")
    parsed = json_format.ParseDict(manifest, types.CustomJobSpec.pb()())
    assert [pool.replica_count for pool in parsed.worker_pool_specs] == [1, 2, 2, 1]


def test_plain_jobs_and_their_service():
    """Kubernetes' schemas accept them, and each pod's TF_CONFIG has the names of all pods."""
    yaml = pytest.importorskip("yaml")
    validator = pytest.importorskip("kubernetes_validate")
    text = (EXAMPLES / "engines" / "kubernetes_jobs.yaml").read_text(encoding="utf-8")
    service, *jobs = yaml.safe_load_all(text)
    for each in (service, *jobs):
        validator.validate(each, KUBERNETES, strict=True)
    name, (port,) = service["metadata"]["name"], service["spec"]["ports"]
    expected = {}
    for job in jobs:
        pods, spec = job["metadata"]["name"], job["spec"]
        assert spec["template"]["metadata"]["labels"] == service["spec"]["selector"]
        assert spec["template"]["spec"]["subdomain"] == name
        expected[pods.removeprefix(f"{name}-")] = [
            f"{pods}-{index}.{name}:{port['port']}" for index in range(spec["completions"])
        ]
    for job in jobs:
        (container,) = job["spec"]["template"]["spec"]["containers"]
        variables = {each["name"]: each.get("value", "1") for each in container["env"]}
        config = variables["TF_CONFIG"]
        for each in ("CLUSTER", "INDEX"):  # as Kubernetes expands them
            config = config.replace(f"$({each})", variables[each])
        task = {"type": job["metadata"]["name"].removeprefix(f"{name}-"), "index": 1}
        assert json.loads(config) == {"cluster": expected, "task": task}
