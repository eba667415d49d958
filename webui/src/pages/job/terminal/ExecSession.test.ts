import { beforeEach, expect, test, vi } from "vitest";
import { ExecSession, type End } from "./ExecSession";

class Socket {
  readonly OPEN = 1;
  readyState = 0;
  binaryType = "";
  sent: (string | Uint8Array)[] = [];
  onopen = () => undefined as unknown;
  onmessage: (message: { data: unknown }) => unknown = () => undefined;
  onclose = () => undefined as unknown;
  send(frame: string | Uint8Array) {
    this.sent.push(frame);
  }
  close() {
    this.readyState = 3;
    this.onclose();
  }
  open() {
    this.readyState = this.OPEN;
    this.onopen();
  }
  frame(channel: number, text: string) {
    this.onmessage({ data: new Uint8Array([channel, ...new TextEncoder().encode(text)]).buffer });
  }
}

let socket: Socket;
let session: ExecSession;
let output: string;
let ends: End[];

beforeEach(() => {
  socket = new Socket();
  output = "";
  ends = [];
  const watcher = {
    onOpen: vi.fn(),
    onOutput: (bytes: Uint8Array) => (output += new TextDecoder().decode(bytes)),
    onEnd: (end: End) => ends.push(end),
  };
  const size = { rows: 24, cols: 80 };
  session = new ExecSession("ws://x", size, watcher, () => socket as unknown as WebSocket);
});

test("asks for a shell of the terminal's size", () => {
  socket.open();
  expect(socket.sent).toEqual([JSON.stringify({ argv: [], tty: true, rows: 24, cols: 80 })]);
});

test("carries what is typed, and a long paste in pieces", () => {
  socket.open();
  session.input("ls\r");
  session.input("x".repeat(40_000));
  const [typed, ...pasted] = socket.sent.slice(1) as Uint8Array[];
  expect([...(typed ?? [])]).toEqual([0, 108, 115, 13]);
  expect(pasted.map((frame) => frame.length)).toEqual([32_769, 40_000 - 32_768 + 1]);
});

test("shows a new size, and no size twice", () => {
  socket.open();
  session.resize({ rows: 24, cols: 80 });
  session.resize({ rows: 30, cols: 100 });
  const [frame] = socket.sent.slice(1) as Uint8Array[];
  expect(frame?.[0]).toBe(3);
  expect(new TextDecoder().decode(frame?.subarray(1))).toBe('{"resize":[30,100]}');
});

test("shows both streams", () => {
  socket.open();
  socket.frame(1, "out ");
  socket.frame(2, "err");
  expect(output).toBe("out err");
});

test("the exit code is the end, whatever the connection does after it", () => {
  socket.open();
  socket.frame(3, '{"exit": 3}');
  expect(ends).toEqual([{ kind: "exit", code: 3 }]);
});

test("a refusal ends it with its words", () => {
  socket.frame(3, '{"error": {"code": "not_running", "message": "It is over."}}');
  expect(ends).toEqual([{ kind: "refused", code: "not_running", message: "It is over." }]);
});

test("a broken connection is reported as such, one that is left is not reported", () => {
  socket.open();
  socket.close();
  expect(ends).toEqual([{ kind: "lost" }]);
  ends = [];
  session.close();
  expect(ends).toEqual([]);
});
