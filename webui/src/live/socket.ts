/** What one can follow; "job" and "job-logs" need a job's id. */
export type Topic = "jobs" | "job" | "job-logs" | "cluster" | "notifications";
export type Status = "connecting" | "open" | "waiting";

type Listener = () => void;
type Opener = (url: string) => WebSocket;

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 20_000;

/** How long to wait before try number `failures` (from 1), with `random` in [0, 1) spreading the
 * browsers of a whole team after a restart of the server. */
export function backoff(failures: number, random: number): number {
  const ceiling = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1));
  return ceiling * (0.5 + random / 2);
}

/** One WebSocket for the whole page, open while anything is followed.
 *
 * A message says that a topic changed, never what. After a reconnection every listener is called,
 * because the messages of the gap are lost. */
export class LiveSocket {
  private socket: WebSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private everOpen = false;
  private readonly topics = new Map<string, Set<Listener>>();
  private readonly watchers = new Set<Listener>();
  status: Status = "waiting";

  constructor(
    private readonly url: string,
    private readonly open: Opener = (address) => new WebSocket(address),
  ) {}

  /** Calls `listener` at every change of the topic, until the returned function is called. */
  subscribe(topic: Topic, id: string, listener: Listener): () => void {
    const key = `${topic} ${id}`;
    const listeners = this.topics.get(key) ?? new Set();
    listeners.add(listener);
    if (listeners.size === 1) {
      this.topics.set(key, listeners);
      this.send("subscribe", key);
    }
    this.connect();
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || this.topics.get(key) !== listeners) return;
      this.topics.delete(key);
      this.send("unsubscribe", key);
    };
  }

  subscribeStatus = (listener: Listener): (() => void) => {
    this.watchers.add(listener);
    return () => this.watchers.delete(listener);
  };

  getStatus = (): Status => this.status;

  /** Tries at once instead of at the end of the backoff: the network is back, or a login was. */
  reconnectNow(): void {
    if (this.status !== "waiting") return;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.connect();
  }

  close(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.setStatus("waiting");
  }

  private connect(): void {
    if (this.socket || this.timer !== undefined || this.topics.size === 0) return;
    this.setStatus("connecting");
    const socket = this.open(this.url);
    this.socket = socket;
    socket.onopen = () => this.onOpen(socket);
    socket.onmessage = (message) => this.onMessage(String(message.data));
    socket.onclose = () => this.onClose(socket);
  }

  private onOpen(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.failures = 0;
    this.setStatus("open");
    for (const key of this.topics.keys()) this.send("subscribe", key);
    if (this.everOpen) for (const key of this.topics.keys()) this.notify(key);
    this.everOpen = true;
  }

  private onMessage(text: string): void {
    const message = parse(text);
    if (message?.type === "changed") this.notify(`${message.topic} ${message.id ?? ""}`);
  }

  private onClose(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.socket = null;
    this.failures += 1;
    this.setStatus("waiting");
    this.timer = setTimeout(
      () => {
        this.timer = undefined;
        this.connect();
      },
      backoff(this.failures, Math.random()),
    );
  }

  private notify(key: string): void {
    for (const listener of this.topics.get(key) ?? []) listener();
  }

  private send(verb: "subscribe" | "unsubscribe", key: string): void {
    if (this.status !== "open") return;
    const [topic, id] = key.split(" ") as [string, string];
    this.socket?.send(JSON.stringify({ [verb]: topic, ...(id && { id }) }));
  }

  private setStatus(status: Status): void {
    if (status === this.status) return;
    this.status = status;
    for (const watcher of this.watchers) watcher();
  }
}

function parse(text: string): { type: string; topic?: string; id?: string } | null {
  try {
    const message: unknown = JSON.parse(text);
    return typeof message === "object" ? (message as { type: string }) : null;
  } catch {
    return null;
  }
}
