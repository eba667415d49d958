import type { CellLevel, Chain } from "@/api/types";
import { findLevel } from "@/features/cells/levels";
import { shortModel } from "@/format/names";
import { keyOf, type Change, type Draft, type Field, type Pin } from "./draft";

/** What a field counts: "half node of 4 A100", or "A100 by count". */
export function fieldLabel(chains: Chain[], { chain, type }: Field): string {
  if (chain === "") return `${shortModel(type)} by count`;
  return findLevel(chains, chain, type)?.words ?? type;
}

export function pinLabel(pin: Pin): string {
  const where = pin.device ? `${pin.node}, ${pin.device}` : pin.node;
  return `${where}, ${pin.vc ? `owned by ${pin.vc}` : "no owner"}`;
}

export interface ChangeLabel {
  who: string;
  what: string;
  /** What becomes of what. */
  how: string;
}

export function changeLabel(chains: Chain[], change: Change): ChangeLabel {
  if (change.kind === "claim") {
    const { from, to, field } = change;
    return { who: field.vc, what: fieldLabel(chains, field), how: `${from} → ${to}` };
  }
  return { who: change.key, what: "pinned cell", how: pinChangeText(change.from, change.to) };
}

function pinChangeText(from: Pin | null, to: Pin | null): string {
  if (!to) return "removed";
  if (!from) return `added on ${pinLabel(to)}`;
  if (from.node === to.node && from.device === to.device && from.cell_type === to.cell_type)
    return `${from.vc || "no owner"} → ${to.vc || "no owner"}`;
  return `now on ${pinLabel(to)}`;
}

/** GPUs that a VC owns of a model: its cells in all chains, its pinned ones, and by count. */
export function ownedGpus(vc: string, model: string, chains: Chain[], draft: Draft): number {
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
