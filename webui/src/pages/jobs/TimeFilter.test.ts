import { expect, test } from "vitest";
import { formatDateTime } from "@/format/time";
import { timesLabel } from "./TimeFilter";

const TIME = "2026-05-21T14:00:00Z";

test.each([
  [undefined, undefined, "Any time"],
  ["7d", undefined, "last 7 days"],
  ["2026-05-21", "2026-05-22", "2026-05-21 – 2026-05-22"],
  ["4w", "12h", "4w ago – 12h ago"],
  [TIME, undefined, `since ${formatDateTime(TIME)}`],
  [undefined, "1d", "until 1d ago"],
])("from %s to %s is called %s", (since, until, label) =>
  expect(timesLabel(since, until)).toBe(label),
);
