import type { CellLevel, Chain } from "@/api/types";
import { shortModel } from "@/format/names";
import { count } from "@/format/size";
import { keyOf, type Change, type Draft, type Field, type Pin } from "./draft";

/** "half node of 4 A100" is "half node" where the rest is told beside it. */
export function shortWords(level: CellLevel): string {
  if (level.gpus === 1) return "GPU";
  return level.words.split(" of ")[0] ?? level.words;
}

export function chainWords(chain: Chain): string {
  const node = chain.levels.find((level) => level.is_node) ?? chain.levels.at(0);
  return [node?.words ?? chain.chain, count(chain.nodes, "node")].join(" · ");
}

export function levelOf(chains: Chain[], chain: string, type: string): CellLevel | undefined {
  return chains.find((each) => each.chain === chain)?.levels.find((each) => each.type === type);
}

export function typeWords(chains: Chain[], type: string): string {
  const levels = chains.flatMap((chain) => chain.levels);
  return levels.find((level) => level.type === type)?.words ?? type;
}

/** What a field counts: "half node of 4 A100", or "A100 by count". */
export function fieldWords(chains: Chain[], { chain, type }: Field): string {
  if (chain === "") return `${shortModel(type)} by count`;
  return levelOf(chains, chain, type)?.words ?? type;
}

export function pinWords(pin: Pin): string {
  const where = pin.device ? `${pin.node}, ${pin.device}` : pin.node;
  return `${where}, ${pin.vc ? `owned by ${pin.vc}` : "nobody's"}`;
}

export interface ChangeWords {
  who: string;
  what: string;
  /** What becomes of what. */
  how: string;
}

export function changeWords(chains: Chain[], change: Change): ChangeWords {
  if (change.kind === "claim") {
    const { from, to, field } = change;
    return { who: field.vc, what: fieldWords(chains, field), how: `${from} → ${to}` };
  }
  return { who: change.key, what: "pinned cell", how: pinChange(change.from, change.to) };
}

function pinChange(from: Pin | null, to: Pin | null): string {
  if (!to) return "removed";
  if (!from) return `added on ${pinWords(to)}`;
  if (from.node === to.node && from.device === to.device && from.cell_type === to.cell_type)
    return `${from.vc || "nobody"} → ${to.vc || "nobody"}`;
  return `now on ${pinWords(to)}`;
}

/** GPUs that a VC owns of a model: its cells in all chains, its pinned ones, and by count. */
export function gpusOf(vc: string, model: string, chains: Chain[], draft: Draft): number {
  const claim = (field: Field) => draft.claims[keyOf(field)] ?? 0;
  const pinned = Object.values(draft.pins).filter((pin) => pin.vc === vc);
  const ofLevel = (chain: Chain, { type, gpus }: CellLevel) =>
    gpus *
    (claim({ vc, chain: chain.chain, type }) +
      pinned.filter((pin) => pin.cell_type === type).length);
  return chains
    .filter((chain) => chain.gpu_model === model)
    .flatMap((chain) => chain.levels.map((level) => ofLevel(chain, level)))
    .reduce((sum, gpus) => sum + gpus, claim({ vc, chain: "", type: model }));
}
