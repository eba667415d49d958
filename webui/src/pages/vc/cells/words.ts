import type { CellState } from "@/api/vc";
import { count } from "@/format/size";
import type { Comb } from "./model";

export const STATE_WORDS: Record<CellState, string> = {
  free: "free",
  used: "in use",
  reserved: "reserved for a job that makes room",
  bad: "bad: it cannot be used",
  lent: "lent to another team until it is needed",
};

/** A job that the reader may see. */
const WITH_JOB: Partial<Record<CellState, string>> = {
  reserved: "reserved for",
  lent: "lent to the opportunistic job",
};

/** How a GPU is, or how many GPUs of a larger cell are how. */
export function stateWords(comb: Comb): string {
  if (comb.leaf) return gpuWords(comb);
  const parts = [`${comb.used} of ${count(comb.gpus, "GPU")} in use`];
  if (comb.lent > 0) parts.push(`${comb.lent} lent out`);
  if (comb.bad > 0) parts.push(`${comb.bad} bad`);
  return parts.join(", ");
}

function gpuWords({ state, job }: Comb): string {
  if (!job) return STATE_WORDS[state];
  return `${WITH_JOB[state] ?? "in use by"} ${job.name}`;
}

/** "2 nodes of 8 A100": cells without a place, by what they are. */
export function countByWords(combs: Comb[]): string {
  const found = new Map<string, number>();
  for (const { words } of combs) found.set(words, (found.get(words) ?? 0) + 1);
  return [...found].map(([words, number]) => `${number} × ${words}`).join(", ");
}
