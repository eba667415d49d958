import type { CellLevel, Chain } from "@/api/types";
import { pluralize } from "@/format/numbers";

/** Shortens "half node of 4 A100" to "half node", for where the rest is shown beside it. */
export function shortLevelLabel(level: CellLevel): string {
  if (level.gpus === 1) return "GPU";
  return level.words.split(" of ")[0] ?? level.words;
}

export function chainLabel(chain: Chain): string {
  const node = chain.levels.find((level) => level.is_node) ?? chain.levels.at(0);
  return [node?.words ?? chain.chain, pluralize(chain.nodes, "node")].join(" · ");
}

export function findLevel(chains: Chain[], chain: string, type: string): CellLevel | undefined {
  return chains.find((each) => each.chain === chain)?.levels.find((each) => each.type === type);
}

export function cellTypeLabel(chains: Chain[], type: string): string {
  const levels = chains.flatMap((chain) => chain.levels);
  return levels.find((level) => level.type === type)?.words ?? type;
}
