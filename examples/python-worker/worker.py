"""A Pawl worker in Python, with nothing but the standard library.

It claims the tasks of one asset over HTTP, keeps their leases alive, and reports how they end. Copy it
and put your own work into `make`. docs/worker-protocol.md explains every message.

    python3 worker.py --url http://127.0.0.1:7290 --asset letters --publish
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
import uuid

CLAIM_WAIT_MS = 20_000
ANSWER_SECONDS = 10
MESSAGE_LENGTH_MAX = 2_000
LOG_LENGTH_MAX = 10_000


# --- Your work ---------------------------------------------------------------------------------------

# What the asset is. A project in TypeScript may define it as well: then leave `--publish` out, and run no
# other worker that has a function for it.
PARTITIONS = {"type": "static", "keys": ["a", "b", "c"]}


def make(task):
    """Makes one partition: a file, written in steps, that is whole or not there.

    Making it twice is making it once, because an attempt can end anywhere and the next one begins at
    the last checkpoint. What it returns is kept with the partition.
    """
    folder = task.config.get("folder", "made")
    os.makedirs(folder, exist_ok=True)
    steps = task.config.get("steps", 3)
    lines = (task.checkpoint or {}).get("lines", [])
    if lines:
        task.log("going on after an earlier attempt", steps_done=len(lines))
    while len(lines) < steps:
        task.check()
        lines.append(f"{task.partition} {len(lines) + 1}")
        task.save_checkpoint({"lines": lines})
        task.progress(len(lines), steps)
        # To try what happens in the middle: work stands still while there is a file `hold`.
        while os.path.exists(os.path.join(folder, "hold")):
            task.check()
            time.sleep(0.1)
    path = os.path.join(folder, task.partition)
    with open(f"{path}.{task.attempt}.tmp", "w") as file:
        file.write("\n".join(lines) + "\n")
    task.check()
    os.replace(f"{path}.{task.attempt}.tmp", path)
    return {"lines": len(lines)}


# --- The protocol ------------------------------------------------------------------------------------


class Refused(Exception):
    """The server's answer was an error; `code` is one of docs/errors.md."""

    def __init__(self, status, code, detail):
        super().__init__(f"{detail} ({code})")
        self.status = status
        self.code = code
        # Too many requests, a proxy without a server behind it, a server that starts or is busy.
        self.may_pass = status in (408, 429) or status >= 500


class DoNotRetry(Exception):
    """Raise it in `make` when another attempt cannot help."""


class Skip(Exception):
    """Raise it in `make` when there is nothing to do for the partition."""


class Stopped(Exception):
    """The attempt must end; `why` is "cancelled", "lost", "timeout", "stalled" or "released"."""

    def __init__(self, why):
        super().__init__(why)
        self.why = why


class Server:
    def __init__(self, url, token):
        self.url = url.rstrip("/")
        self.token = token

    def post(self, path, body, seconds=ANSWER_SECONDS, headers=None):
        """Sends a message once."""
        headers = {"content-type": "application/json", **(headers or {})}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                problem = json.loads(text)
            except ValueError:
                problem = {}
            detail = problem.get("detail", error.reason)
            raise Refused(error.code, problem.get("code", "?"), detail) from None

    def say(self, message, body, until=None, seconds=ANSWER_SECONDS):
        """Sends a message of the worker until it is answered: every one may be repeated.

        `until` says when nobody waits for the answer any more.
        """
        pause = 0.2
        while True:
            try:
                return self.post(f"/api/v1/worker/{message}", body, seconds)
            except Refused as error:
                if not error.may_pass:
                    raise
            except (OSError, ValueError):
                pass  # The server is away, or its answer was cut off.
            if until is not None and until():
                raise Stopped("lost")
            time.sleep(pause)
            pause = min(pause * 2, 5)


class Task:
    """One attempt at one task. `ref` is its fence: it goes with everything that is said about it."""

    def __init__(self, server, group, task):
        self.server = server
        self.asset = group["asset_key"]
        self.run_id = group["run_id"]
        self.config = group["config"] or {}
        self.timeout_seconds = group["timeout_ms"] / 1000
        self.attempt = task["attempt"]
        self.partitions = task["partition_keys"]
        self.partition = self.partitions[0] if self.partitions else ""
        self.checkpoint = task["checkpoint"]
        self.ref = {
            "run_pos": group["run_pos"],
            "task_key": task["task_key"],
            "attempt": task["attempt"],
        }
        self.stall_seconds = (group["stall_after_ms"] or float("inf")) / 1000
        self.started_at = time.monotonic()
        self.progressed_at = self.started_at
        self.news = None
        self.why = None

    def check(self):
        """Raises when the attempt must end. Call it often."""
        now = time.monotonic()
        if now - self.started_at > self.timeout_seconds:
            self.stop("timeout")
        elif now - self.progressed_at > self.stall_seconds:
            self.stop("stalled")
        if self.why is not None:
            raise Stopped(self.why)

    def stop(self, why):
        # A lost lease outweighs every other reason: then nothing may be reported.
        if self.why is None or why == "lost":
            self.why = why

    def progress(self, done, total, note=None):
        """Goes with the next heartbeat."""
        self.progressed_at = time.monotonic()
        self.news = {"done": done, "total": total, "note": note}

    def save_checkpoint(self, value):
        """Returns once it is kept, for the next attempt."""
        item = {**self.ref, "value": value}
        answer = self.server.say("checkpoint", {"items": [item]}, lambda: self.why == "lost")
        if answer["accepted"] != [True]:
            self.stop("lost")
            raise Stopped("lost")

    def log(self, message, **fields):
        item = {**self.ref, "message": message[:LOG_LENGTH_MAX], "fields": fields}
        try:
            self.server.post("/api/v1/worker/log", {"items": [item]})
        except (OSError, Refused, TypeError, ValueError):
            pass  # A line of the log is not worth a failed task.


class Heartbeats(threading.Thread):
    """Renews a lease every third of its life, and hears what to stop.

    After two thirds without an answer the task is given up: a third later the server may give it to
    somebody else, and two must not work on the same partition.
    """

    def __init__(self, server, worker_id, lease_id, ttl_ms, task):
        super().__init__(daemon=True)
        self.server = server
        self.worker_id = worker_id
        self.lease_id = lease_id
        self.ttl = ttl_ms / 1000
        self.task = task
        self.ended = threading.Event()

    def run(self):
        confirmed_at = time.monotonic()
        pause = self.ttl / 3
        while not self.ended.wait(pause):
            sent_at = time.monotonic()
            left = confirmed_at + self.ttl * 2 / 3 - sent_at
            if left <= 0:
                return self.task.stop("lost")
            news = {} if self.task.news is None else {"progress": self.task.news}
            beat = {
                "worker_id": self.worker_id,
                "leases": [self.lease_id],
                "tasks": [{**self.task.ref, **news}],
            }
            try:
                answer = self.server.post("/api/v1/worker/heartbeat", beat, left)
            except (OSError, ValueError, Refused):
                pause = min(1, self.ttl / 15)  # The next one may get through.
                continue
            if answer["lost"] or self.lease_id not in answer["renewed"]:
                return self.task.stop("lost")
            confirmed_at = sent_at
            pause = self.ttl / 3
            if answer["cancelled"]:
                self.task.stop("cancelled")


class Worker:
    def __init__(self, server, asset):
        self.server = server
        self.asset = asset
        self.worker_id = f"python:{socket.gethostname()}:{os.getpid()}"
        self.stopping = False
        self.task = None

    def stop(self, *_):
        """Claims nothing more, and gives back what it has."""
        self.stopping = True
        if self.task is not None:
            self.task.stop("released")

    def work(self):
        while not self.stopping:
            claim = {
                "worker_id": self.worker_id,
                "lease_id": uuid.uuid4().hex,  # Ours: a repeated claim gets the same task.
                "slots": 1,
                "assets": [self.asset],
                "code_version": None,
                "wait_ms": CLAIM_WAIT_MS,
            }
            seconds = CLAIM_WAIT_MS / 1000 + ANSWER_SECONDS
            asked_at = time.monotonic()
            try:
                answer = self.server.say("claim", claim, lambda: self.stopping, seconds)
            except Stopped:
                return
            for group in answer["groups"]:
                for task in group["tasks"]:
                    self.attempt(answer, Task(self.server, group, task))
            if not answer["groups"] and time.monotonic() - asked_at < 0.1:
                time.sleep(0.1)  # Not kept waiting: the server asks who is there, or is about to stop.

    def attempt(self, claimed, task):
        self.task = task
        if self.stopping:
            task.stop("released")
        beats = Heartbeats(
            self.server, self.worker_id, claimed["lease_id"], claimed["ttl_ms"], task
        )
        beats.start()
        try:
            result = self.outcome(task)
            if result is not None:
                self.report(claimed["lease_id"], task, result)
        finally:
            beats.ended.set()
            self.task = None

    def outcome(self, task):
        """How the attempt ended; None when nobody waits for it any more."""
        try:
            task.check()
            metadata = make(task)
            json.dumps(metadata, allow_nan=False)  # What is no JSON fails the task, not the worker.
            return {"outcome": "SUCCEEDED", "metadata": metadata}
        except Stopped as stopped:
            return self.outcome_of_stop(stopped.why)
        except Skip as reason:
            return {"outcome": "SKIPPED", "error": failure("skipped", reason)}
        except DoNotRetry as error:
            return {"outcome": "FAILED", "error": failure("user", error), "final": True}
        except Exception as error:
            task.log(str(error), stack=traceback.format_exc()[-8_000:])
            return {"outcome": "FAILED", "error": failure("user", error)}

    def outcome_of_stop(self, why):
        if why == "lost":
            return None
        if why == "cancelled":
            return {"outcome": "CANCELLED", "error": failure("cancelled", "The task was cancelled.")}
        if why == "released":
            message = "The worker stopped and gave the task back."
            return {"outcome": "FAILED", "error": failure("transient", message), "released": True}
        message = "The task took too long." if why == "timeout" else "The task showed no progress."
        return {"outcome": "FAILED", "error": failure(why, message)}

    def report(self, lease_id, task, result):
        report = {
            "worker_id": self.worker_id,
            "code_version": None,
            "results": [{**task.ref, **result}],
            "released_leases": [lease_id],
        }
        try:
            try:
                answer = self.server.say("report", report, lambda: task.why == "lost")
            except Refused as error:
                if error.code != "INPUT_INVALID":
                    raise
                # Such as too much metadata: the task has failed, and the worker goes on.
                result = {"outcome": "FAILED", "error": failure("input", error)}
                report["results"] = [{**task.ref, **result}]
                answer = self.server.say("report", report, lambda: task.why == "lost")
            print(task.asset, task.partition, result["outcome"], answer["results"][0], flush=True)
        except Stopped:
            print(task.asset, task.partition, "was lost before it was reported", flush=True)


def failure(kind, error):
    return {"class": kind, "message": str(error)[:MESSAGE_LENGTH_MAX] or type(error).__name__}


def main():
    parser = argparse.ArgumentParser(description="Makes partitions of one asset.")
    parser.add_argument("--url", default=os.environ.get("PAWL_URL", "http://127.0.0.1:7290"))
    parser.add_argument("--asset", required=True, help="the key of the asset")
    parser.add_argument("--publish", action="store_true", help="define the asset first")
    arguments = parser.parse_args()
    server = Server(arguments.url, os.environ.get("PAWL_TOKEN"))
    try:
        if arguments.publish:
            spec = {"kind": "asset", "asset_key": arguments.asset, "partitions": PARTITIONS}
            key = {"idempotency-key": uuid.uuid4().hex}
            path = "/api/v1/orchestration/definitions"
            server.post(path, {"specs": [spec], "origin": "api"}, headers=key)
        worker = Worker(server, arguments.asset)
        signal.signal(signal.SIGTERM, worker.stop)
        signal.signal(signal.SIGINT, worker.stop)
        print(f"working on {arguments.asset}", flush=True)
        worker.work()
    except (OSError, Refused) as error:
        sys.exit(f"worker.py: {error}")


if __name__ == "__main__":
    main()
