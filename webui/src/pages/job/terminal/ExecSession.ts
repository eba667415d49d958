/** The first byte of a frame says what the rest is (see docs/agent-protocol.md). */
const INPUT = 0;
const OUTPUT = 1;
const ERROR = 2;
const CONTROL = 3;

/** A long paste goes in pieces. */
const MAX_FRAME_BYTES = 32 * 1024;

/** How a session ended: the command did, the server says why not, or the connection broke. */
export type End =
  | { kind: "exit"; code: number }
  | { kind: "refused"; code: string; message: string }
  | { kind: "lost" };

export interface Size {
  rows: number;
  cols: number;
}

interface SessionListener {
  onOpen: () => void;
  onOutput: (bytes: Uint8Array) => void;
  onEnd: (end: End) => void;
}

/** A shell in the container of a running attempt, over one WebSocket. */
export class ExecSession {
  private readonly socket: WebSocket;
  private readonly encoder = new TextEncoder();
  private ended = false;

  constructor(
    address: string,
    private size: Size,
    private readonly watcher: SessionListener,
    connect: (address: string) => WebSocket = (to) => new WebSocket(to),
  ) {
    this.socket = connect(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.start();
    this.socket.onmessage = ({ data }) => this.receive(data as ArrayBuffer | string);
    this.socket.onclose = () => this.end({ kind: "lost" });
  }

  input(text: string): void {
    const bytes = this.encoder.encode(text);
    for (let at = 0; at < bytes.length; at += MAX_FRAME_BYTES) {
      this.send(INPUT, bytes.subarray(at, at + MAX_FRAME_BYTES));
    }
  }

  resize(size: Size): void {
    if (size.rows === this.size.rows && size.cols === this.size.cols) return;
    this.size = size;
    this.control({ resize: [size.rows, size.cols] });
  }

  close(): void {
    this.ended = true;
    this.socket.close();
  }

  private start(): void {
    this.socket.send(JSON.stringify({ argv: [], tty: true, ...this.size }));
    this.watcher.onOpen();
  }

  private receive(data: ArrayBuffer | string): void {
    if (typeof data === "string") return;
    const frame = new Uint8Array(data);
    const payload = frame.subarray(1);
    if (frame[0] === OUTPUT || frame[0] === ERROR) this.watcher.onOutput(payload);
    else if (frame[0] === CONTROL) this.reported(JSON.parse(new TextDecoder().decode(payload)));
  }

  private reported(message: { exit?: number; error?: { code: string; message: string } }): void {
    if (message.exit !== undefined) this.end({ kind: "exit", code: message.exit });
    else if (message.error) this.end({ kind: "refused", ...message.error });
  }

  private control(message: object): void {
    this.send(CONTROL, this.encoder.encode(JSON.stringify(message)));
  }

  private send(channel: number, payload: Uint8Array): void {
    if (this.socket.readyState !== this.socket.OPEN) return;
    const frame = new Uint8Array(payload.length + 1);
    frame[0] = channel;
    frame.set(payload, 1);
    this.socket.send(frame);
  }

  /** Only the first end counts: after the last word the connection closes. */
  private end(end: End): void {
    if (this.ended) return;
    this.ended = true;
    this.watcher.onEnd(end);
    this.socket.close();
  }
}
