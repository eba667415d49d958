import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { throttle } from "./coalesce";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("acts at once, then once per gap, and never loses the last call", () => {
  const action = vi.fn();
  const ring = throttle(action, 100);
  ring();
  ring();
  ring();
  expect(action).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(100);
  expect(action).toHaveBeenCalledTimes(2);
  vi.advanceTimersByTime(1000);
  expect(action).toHaveBeenCalledTimes(2);
});

test("forgets a pending call when cancelled", () => {
  const action = vi.fn();
  const ring = throttle(action, 100);
  ring();
  ring();
  ring.cancel();
  vi.advanceTimersByTime(1000);
  expect(action).toHaveBeenCalledTimes(1);
});
