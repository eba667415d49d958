import type { Range } from "../search";

const HOUR = 3600;

/** Seconds that a range covers, and of one point of it. */
export const RANGE: Record<Range, { seconds: number; step: number; words: string }> = {
  "6h": { seconds: 6 * HOUR, step: 60, words: "6 hours" },
  "24h": { seconds: 24 * HOUR, step: 300, words: "24 hours" },
  "7d": { seconds: 7 * 24 * HOUR, step: HOUR / 2, words: "7 days" },
  "30d": { seconds: 30 * 24 * HOUR, step: 2 * HOUR, words: "30 days" },
};
