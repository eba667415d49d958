import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { backoff, LiveSocket } from "./socket";

class FakeSocket {
  static made: FakeSocket[] = [];
  sent: unknown[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;

  constructor() {
    FakeSocket.made.push(this);
  }
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.onclose?.();
  }
  ring(topic: string, id = "") {
    this.onmessage?.({ data: JSON.stringify({ type: "changed", topic, id }) });
  }
}

const newest = () => FakeSocket.made.at(-1) as FakeSocket;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.made = [];
});
afterEach(() => {
  vi.useRealTimers();
});

function aSocket() {
  return new LiveSocket("ws://here/ws/live", () => new FakeSocket() as unknown as WebSocket);
}

describe("the live socket", () => {
  test("opens with the first follower only, and asks for each topic once", () => {
    const live = aSocket();
    expect(FakeSocket.made).toHaveLength(0);
    live.subscribe("jobs", "", vi.fn());
    live.subscribe("job", "7", vi.fn());
    live.subscribe("job", "7", vi.fn());
    newest().onopen?.();
    expect(FakeSocket.made).toHaveLength(1);
    expect(newest().sent).toEqual([{ subscribe: "jobs" }, { subscribe: "job", id: "7" }]);
  });

  test("rings those who follow the topic and no one else", () => {
    const live = aSocket();
    const [mine, other] = [vi.fn(), vi.fn()];
    live.subscribe("job", "7", mine);
    live.subscribe("job", "8", other);
    newest().onopen?.();
    newest().ring("job", "7");
    expect(mine).toHaveBeenCalledOnce();
    expect(other).not.toHaveBeenCalled();
  });

  test("leaves a topic with its last follower", () => {
    const live = aSocket();
    const stop = [live.subscribe("job", "7", vi.fn()), live.subscribe("job", "7", vi.fn())];
    newest().onopen?.();
    stop[0]?.();
    expect(newest().sent).toHaveLength(1);
    stop[1]?.();
    expect(newest().sent.at(-1)).toEqual({ unsubscribe: "job", id: "7" });
  });

  test("comes back after a loss, asks again, and rings everybody for what was missed", () => {
    const live = aSocket();
    const ring = vi.fn();
    live.subscribe("cluster", "", ring);
    newest().onopen?.();
    expect(ring).not.toHaveBeenCalled();
    newest().onclose?.();
    expect(live.getStatus()).toBe("waiting");
    vi.advanceTimersByTime(1000);
    expect(FakeSocket.made).toHaveLength(2);
    newest().onopen?.();
    expect(newest().sent).toEqual([{ subscribe: "cluster" }]);
    expect(ring).toHaveBeenCalledOnce();
  });

  test("tries at once when it is known that the network is back", () => {
    const live = aSocket();
    live.subscribe("jobs", "", vi.fn());
    newest().onclose?.();
    live.reconnectNow();
    expect(FakeSocket.made).toHaveLength(2);
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.made).toHaveLength(2);
  });

  test("stays closed after a logout", () => {
    const live = aSocket();
    live.subscribe("jobs", "", vi.fn());
    newest().onopen?.();
    live.close();
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.made).toHaveLength(1);
  });

  test("ignores what it does not understand", () => {
    const live = aSocket();
    live.subscribe("jobs", "", vi.fn());
    newest().onopen?.();
    expect(() => newest().onmessage?.({ data: "{broken" })).not.toThrow();
    expect(() => newest().onmessage?.({ data: "null" })).not.toThrow();
  });
});

describe("backoff", () => {
  test("doubles up to a limit, and spreads between half and all of it", () => {
    expect(backoff(1, 1)).toBe(500);
    expect(backoff(3, 1)).toBe(2000);
    expect(backoff(3, 0)).toBe(1000);
    expect(backoff(40, 1)).toBe(20_000);
  });
});
