# SPDX-License-Identifier: Apache-2.0
"""Trains `clicks.py` on a Ray cluster: a chief, workers and parameter servers, an actor each.

    ray job submit --working-dir examples/engines -- \
        python ray_cluster.py --model_dir=/shared/clicks --workers=1 --servers=1

A placement group spreads the actors over the nodes, and their addresses become TF_CONFIG. An actor
whose process ends is started again at its address, and goes on from the latest checkpoint. When a
node is lost, its address is, too: run it again.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

HERE = Path(__file__).resolve().parent
RESTARTS = 3


@ray.remote(num_cpus=1, max_restarts=RESTARTS, max_task_retries=RESTARTS)
class Task:
    """A task of the cluster; its process does nothing else."""

    def choose_address(self) -> str:
        """Returns an address of its node with a free port."""
        with socket.socket() as free:
            free.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def process(self) -> int:
        """Returns the id of its process."""
        return os.getpid()

    def run(self, config: dict[str, Any], arguments: tuple[str, int]) -> Any:
        """Does the task that TF_CONFIG says; a parameter server's doesn't end."""
        os.environ["TF_CONFIG"] = json.dumps(config)
        import clicks  # once TF_CONFIG is set

        return clicks.train(*arguments)


def train(model_dir: str, train_steps: int, workers: int, servers: int) -> dict[str, float]:
    """Trains on the Ray cluster that this process is connected to; returns the chief's result."""
    names = ["chief", *["worker"] * workers, *["ps"] * servers]
    group = placement_group([{"CPU": 1}] * len(names), strategy="SPREAD")
    ray.get(group.ready())
    tasks = [
        Task.options(
            name=f"{job}-{number}",
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, number),
        ).remote()
        for number, job in enumerate(names)
    ]
    try:
        cluster: dict[str, list[str]] = {}
        positions = []
        addresses = ray.get([each.choose_address.remote() for each in tasks])
        for job, address in zip(names, addresses, strict=True):
            positions.append({"type": job, "index": len(cluster.setdefault(job, []))})
            cluster[job].append(address)
        results = [
            task.run.remote({"cluster": cluster, "task": position}, (model_dir, train_steps))
            for task, position in zip(tasks, positions, strict=True)
        ]
        # Parameter servers serve until they are killed; the error of one ends the training, too.
        waiting = results[: 1 + workers]
        while waiting:
            ended, _ = ray.wait([*waiting, *results[1 + workers :]])
            ray.get(ended)
            waiting = [each for each in waiting if each not in ended]
        return ray.get(results[0])
    finally:
        for task in tasks:
            ray.kill(task)
        remove_placement_group(group)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model_dir", required=True, help="a directory that all nodes reach")
    parser.add_argument("--train_steps", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--servers", type=int, default=1)
    parsed = parser.parse_args()
    ray.init()  # with its working directory, Ray copies `clicks.py` to the nodes
    print(json.dumps(train(parsed.model_dir, parsed.train_steps, parsed.workers, parsed.servers)))


if __name__ == "__main__":
    main()
