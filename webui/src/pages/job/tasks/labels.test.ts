import { expect, test } from "vitest";
import { anAttempt, aTask, aWholeJob } from "@/test/rows";
import { portsText, readyTasks } from "./labels";

test("ports are shown by their labels", () => {
  expect(portsText({ http: [20001, 20002], tf: [20003] })).toBe("http 20001, 20002; tf 20003");
  expect(portsText({})).toBe("");
});

const ready = anAttempt({ state: "PREPARING", ready_at: "2026-01-01T10:00:04Z" });
const tasks = [
  aTask({ attempt: ready }),
  aTask({ id: 2, attempt: { ...ready, ready_at: null } }),
  aTask({ id: 3, attempt: { ...ready, index: 0 } }),
];

test("tasks of the present attempt that are ready are counted until the gang begins", () => {
  const job = aWholeJob({ state: "WAITING" });
  expect(readyTasks(job, tasks)).toBe(1);
  expect(readyTasks({ ...job, begun_at: "2026-01-01T10:00:05Z" }, tasks)).toBeNull();
  expect(readyTasks({ ...job, placed_at: null }, tasks)).toBeNull();
});
