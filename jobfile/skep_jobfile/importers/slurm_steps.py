"""Steps of a batch script over the nodes of a job: what `srun` does where there is no Slurm.

This file is put into the job as it is and runs in the containers, with nothing but the standard
library of Python 3.6. As in Slurm the script runs on the first node alone; all others serve steps
until it ends. Both sides prove that they belong to the gang by the private key that its tasks have.

    steps.py serve          on all nodes but the first: start what `run` asks for, until `end`
    steps.py begin          the script begins: what it changes in its environment goes to its steps
    steps.py run …          srun: start a command on nodes, and fail as the worst of its processes
    steps.py end CODE       the script is over: all nodes end with its exit code
"""

import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

KEY_FILE = "/run/skep/ssh/id_ed25519"
CONNECT_S = 300  # a node whose image came later may not serve yet
KILL_S = 10  # from SIGTERM to SIGKILL
MAX_LINE = 16 * 1024 * 1024
BEGAN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "environment")
# What differs between nodes stays what it is there, also where the script changes it.
OF_NODE = ("PAI_", "SKEP_", "SLURM_NODEID", "SLURMD_NODENAME", "HOSTNAME", "NODE_RANK", "HOME")
# srun's options that stand alone; all others have a value.
ALONE = set("EHIKOQXZklqsuv")
ALONE_LONG = {
    *("contiguous", "disable-status", "exact", "exclusive", "help", "interactive"),
    *("kill-on-bad-exit", "label", "overcommit", "overlap", "oversubscribe", "preserve-env"),
    *("pty", "quiet", "reboot", "spread-job", "unbuffered", "use-min-nodes", "verbose", "whole"),
}
NAMES = {"N": "nodes", "n": "ntasks", "w": "nodelist", "c": "cpus-per-task"}


def main(argv):
    command, rest = argv[0], argv[1:]
    if command == "serve":
        return serve()
    if command == "begin":
        with open(BEGAN, "w") as file:
            json.dump(dict(os.environ), file)
        return 0
    if command == "end":
        return end(int(rest[0]))
    return run(rest)


# --- the first node


def run(argv):
    parts = [parse(part) for part in components(argv)]
    if not all(command for _, command in parts):
        sys.stderr.write("srun: no command\n")
        return 2
    # The processes of all components are of one step, and numbered through.
    shares = [
        (command, node, count)
        for options, command in parts
        for group in het_groups(options)
        for node, count in zip(*share(options, group))
    ]
    total, first = sum(count for _, _, count in shares), 0
    # Into a pipe or file of the script what other nodes print comes back; else it stays in the
    # log of the node that printed it.
    captured = captured_stdout()
    waiting = []  # type: list[Local | Remote]
    codes = []
    for command, node, count in shares:
        step = {"argv": command, "count": count, "first": first, "total": total, "node": node}
        first += count
        if not count:
            continue
        if node == 0:
            waiting.append(Local(step))
        else:
            step.update(env=environment(), cwd=os.getcwd(), captured=captured)
            waiting.append(Remote(node, step))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: [work.stop() for work in waiting])
    for work in waiting:
        codes.append(work.wait())
        if codes[-1] and any("kill-on-bad-exit" in options for options, _ in parts):
            for other in waiting:
                other.stop()
    return max(codes) if codes else 0


def components(argv):
    """The words of each component: a `:` of its own stands between them"""
    found = [[]]  # type: list[list[str]]
    for word in argv:
        if word == ":":
            found.append([])
        else:
            found[-1].append(word)
    return found


def het_groups(options):
    """The components of the job on which a component of the step runs: of `0`, `0,2` or `0-1`"""
    text, known = options.get("het-group") or options.get("pack-group") or "0", len(groups())
    found = []  # type: list[int]
    for part in text.split(","):
        first, _, last = part.partition("-")
        last = last or first
        if not (first.isdigit() and last.isdigit() and int(first) <= int(last) < known):
            sys.exit("srun: --het-group=%s: the job has components 0 to %d" % (text, known - 1))
        found += range(int(first), int(last) + 1)
    return found


def groups():
    """(first node, nodes, processes on each) of each component of the job"""
    text = os.environ.get("SKEP_STEP_GROUPS")
    if not text:
        return [(0, len(hosts()), int(os.environ["SLURM_NTASKS_PER_NODE"]))]
    found, first = [], 0
    for part in text.split(","):
        nodes, _, tasks = part.partition(":")
        found.append((first, int(nodes), int(tasks)))
        first += int(nodes)
    return found


def parse(argv):
    """(options by long name, the command)"""
    options, at = {}, 0
    while at < len(argv):
        word = argv[at]
        at += 1
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            at -= 1
            break
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
            if not given and name not in ALONE_LONG and not name.startswith("no-"):
                value, at = (argv[at] if at < len(argv) else ""), at + 1
            options[name] = value
        elif word[1] in ALONE:
            if "K" in word:
                options["kill-on-bad-exit"] = ""
        else:
            value = word[2:]
            if not value:
                value, at = (argv[at] if at < len(argv) else ""), at + 1
            options[NAMES.get(word[1], word[1])] = value
    return options, argv[at:]


def share(options, group):
    """(the nodes of the step, how many processes each of them starts)"""
    names = hosts()
    first, count, per_node = groups()[group]
    nodes = list(range(first, first + count))
    if options.get("nodelist"):
        wanted = options["nodelist"].split(",")
        nodes = [n for n in nodes if names[n][0] in wanted]
        if not nodes:
            sys.exit("srun: no node of this job is named %s" % options["nodelist"])
    if options.get("nodes"):
        nodes = nodes[: int(options["nodes"].split("-")[0])]
    if options.get("ntasks-per-node"):
        per_node = int(options["ntasks-per-node"])
    if not options.get("ntasks"):
        return nodes, [per_node] * len(nodes)
    total = int(options["ntasks"])
    if not options.get("nodes"):
        nodes = nodes[: max(min(len(nodes), total), 1)]
    least, more = divmod(total, len(nodes))
    return nodes, [least + (at < more) for at in range(len(nodes))]


def end(code):
    for node in range(1, len(hosts())):
        try:
            Remote(node, {"end": code}, wait_s=5).wait()
        except OSError:
            pass  # it is gone already
    return code


class Remote:
    """A step on another node. Its connection is its life: what is lost is ended there."""

    def __init__(self, node, step, wait_s=CONNECT_S):
        self.node, self.socket = node, connect(hosts()[node], wait_s)
        self.stream = self.socket.makefile("rb")
        text = json.dumps(step)
        send(self.socket, {"step": text, "proof": proof(receive(self.stream)["nonce"] + text)})

    def wait(self):
        while True:
            try:
                told = receive(self.stream)
            except (OSError, ValueError):
                sys.stderr.write("srun: node %s was lost\n" % hosts()[self.node][0])
                return 1
            if "code" in told:
                return told["code"]
            out = sys.stdout if told["out"] == 1 else sys.stderr
            out.buffer.write(bytes.fromhex(told["data"]))
            out.flush()

    def stop(self):
        try:
            send(self.socket, {"stop": True})
        except OSError:
            pass


# --- any node


class Local:
    """The processes of a step on this node."""

    def __init__(self, step, **more):
        self.children = []
        env = dict(os.environ)
        env.update(step.get("env") or {})
        for local in range(step["count"]):
            rank = step["first"] + local
            gpus = int(env.get("SLURM_GPUS_PER_TASK") or 0)
            mine = dict(env, SLURM_LOCALID=str(local), SLURM_PROCID=str(rank))
            mine.update(SLURM_NTASKS=str(step["total"]), SLURM_NPROCS=str(step["total"]))
            mine.update(RANK=str(rank), WORLD_SIZE=str(step["total"]), LOCAL_RANK=str(local))
            mine.update(LOCAL_WORLD_SIZE=str(step["count"]), SLURM_NODEID=str(step["node"]))
            if gpus:
                numbers = range(local * gpus, (local + 1) * gpus)
                mine["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, numbers))
            try:
                child = subprocess.Popen(
                    step["argv"], env=mine, cwd=step.get("cwd"), start_new_session=True, **more
                )
            except OSError as error:
                sys.stderr.write("srun: %s: %s\n" % (step["argv"][0], error.strerror))
                self.stop()
                sys.exit(127)
            self.children.append(child)

    def wait(self):
        codes = [child.wait() for child in self.children]
        return max(code if code >= 0 else 128 - code for code in codes)

    def stop(self):
        self._signal(signal.SIGTERM)
        late = threading.Timer(KILL_S, self._signal, [signal.SIGKILL])
        late.daemon = True
        late.start()

    def _signal(self, number):
        for child in self.children:
            if child.poll() is None:
                try:
                    os.killpg(child.pid, number)
                except OSError:
                    pass


# --- the other nodes


def serve():
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", hosts()[int(os.environ["SLURM_NODEID"])][1]))
    listener.listen(16)
    ended = []  # type: list[int]
    threading.Thread(target=accept, args=(listener, ended), daemon=True).start()
    while not ended:
        time.sleep(0.1)
    return ended[0]


def accept(listener, ended):
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=answer, args=(peer, ended), daemon=True).start()


def answer(peer, ended):
    with peer, peer.makefile("rb") as stream:
        try:
            nonce = secrets.token_hex(16)
            send(peer, {"nonce": nonce})
            asked = receive(stream)
            if not hmac.compare_digest(asked["proof"], proof(nonce + asked["step"])):
                return
            step = json.loads(asked["step"])
            if "end" in step:
                send(peer, {"code": 0})
                ended.append(step["end"])
                return
            serve_step(peer, stream, step)
        except (OSError, ValueError, KeyError):
            return  # a stranger, or a script that is gone


def serve_step(peer, stream, step):
    more = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE) if step["captured"] else {}
    try:
        work = Local(step, **more)
    except SystemExit as error:
        send(peer, {"code": int(error.code or 1)})
        return
    threading.Thread(target=watch, args=(stream, work), daemon=True).start()
    lock, copies = threading.Lock(), []
    for child in work.children if step["captured"] else ():
        for number, source in ((1, child.stdout), (2, child.stderr)):
            copies.append(threading.Thread(target=copy, args=(peer, lock, number, source)))
            copies[-1].start()
    for thread in copies:
        thread.join()
    code = work.wait()
    with lock:
        send(peer, {"code": code})


def copy(peer, lock, number, source):
    for piece in iter(lambda: source.read1(65536), b""):
        with lock:
            send(peer, {"out": number, "data": piece.hex()})


def watch(stream, work):
    """Its processes end when the script asks for that, and when it is gone."""
    try:
        receive(stream)
    except (OSError, ValueError):
        pass
    work.stop()


# --- what both sides share


def hosts():
    """(address, port for steps) of each node"""
    listed = os.environ["SKEP_STEP_HOSTS"].split(",")
    return [(host, int(port)) for host, _, port in (entry.rpartition(":") for entry in listed)]


def environment():
    """What the script set: the rest, such as the GPUs, each node knows for itself."""
    with open(BEGAN) as file:
        before = json.load(file)
    changed = {k: v for k, v in os.environ.items() if before.get(k) != v}
    return {k: v for k, v in changed.items() if not k.startswith(OF_NODE)}


def captured_stdout():
    """Whether the script reads what srun prints."""
    here = os.fstat(1)
    return "%d:%d" % (here.st_dev, here.st_ino) != os.environ.get("SKEP_STEP_STDOUT", "")


def connect(host, wait_s):
    late = time.monotonic() + wait_s
    while True:
        try:
            found = socket.create_connection(host, timeout=10)
            found.settimeout(None)
            return found
        except OSError:
            if time.monotonic() > late:
                sys.stderr.write("srun: node %s does not answer\n" % host[0])
                raise
            time.sleep(0.2)


def proof(text):
    with open(os.environ.get("SKEP_STEP_KEY", KEY_FILE), "rb") as file:
        key = hashlib.sha256(file.read()).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def send(peer, message):
    peer.sendall(json.dumps(message).encode() + b"\n")


def receive(stream):
    line = stream.readline(MAX_LINE)
    if not line.endswith(b"\n"):
        raise ValueError("closed")
    return json.loads(line.decode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
