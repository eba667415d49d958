import { expect, test } from "vitest";
import { serialize } from "./coalesce";

test("calls during a run become one run after it", async () => {
  const ends: (() => void)[] = [];
  const ring = serialize(() => new Promise<void>((resolve) => ends.push(resolve)));
  const finish = async () => {
    ends.at(-1)?.();
    await Promise.resolve();
    await Promise.resolve();
    await Promise.resolve();
  };
  ring();
  ring();
  ring();
  expect(ends).toHaveLength(1);
  await finish();
  expect(ends).toHaveLength(2);
  await finish();
  expect(ends).toHaveLength(2);
  ring();
  expect(ends).toHaveLength(3);
});

test("a run that fails does not block the next", async () => {
  let runs = 0;
  const ring = serialize(async () => {
    runs += 1;
    throw new Error("no");
  });
  ring();
  await new Promise((resolve) => setTimeout(resolve));
  ring();
  expect(runs).toBe(2);
});
