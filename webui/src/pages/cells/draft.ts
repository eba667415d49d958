import type { Assignment, PinnedCell } from "@/api/types";

/** A pinned cell and the virtual cluster that owns it; "" is none. */
export interface Pin extends PinnedCell {
  vc: string;
}

/** An assignment as the editor changes it: flat, so that two of them are compared and merged field
 * by field. What is absent of `claims` is 0. */
export interface Draft {
  vcs: string[];
  claims: Record<string, number>;
  pins: Record<string, Pin>;
}

/** What a VC owns of a type. As in the server's `Claim`, a chain "" makes it a count claim: `type`
 * is then a GPU model and the number counts GPUs. */
export interface Field {
  vc: string;
  chain: string;
  type: string;
}

export type Change =
  | { kind: "claim"; key: string; field: Field; from: number; to: number }
  | { kind: "pin"; key: string; from: Pin | null; to: Pin | null };

export function keyOf({ vc, chain, type }: Field): string {
  return [vc, chain, type].join("\n");
}

export function fieldOf(key: string): Field {
  const [vc = "", chain = "", type = ""] = key.split("\n");
  return { vc, chain, type };
}

export function toDraft(assignment: Assignment): Draft {
  const draft: Draft = { vcs: [], claims: {}, pins: {} };
  const owners: Record<string, string> = {};
  for (const [vc, owns] of Object.entries(assignment.virtual_clusters)) {
    draft.vcs.push(vc);
    for (const { chain, cell_type, number } of owns.cells)
      draft.claims[keyOf({ vc, chain, type: cell_type })] = number;
    for (const [model, gpus] of Object.entries(owns.quotas))
      draft.claims[keyOf({ vc, chain: "", type: model })] = gpus;
    for (const pin of owns.pins) owners[pin] = vc;
  }
  for (const pin of assignment.pins) draft.pins[pin.name] = { ...pin, vc: owners[pin.name] ?? "" };
  draft.vcs.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return draft;
}

/** The assignment to send. Its order is fixed, for the server names places in it by index. */
export function toAssignment(draft: Draft, revision: number): Assignment {
  const virtual_clusters: Assignment["virtual_clusters"] = {};
  for (const vc of draft.vcs) virtual_clusters[vc] = { cells: [], quotas: {}, pins: [] };
  for (const key of Object.keys(draft.claims).sort()) {
    const { vc, chain, type } = fieldOf(key);
    const number = draft.claims[key] ?? 0;
    const owns = virtual_clusters[vc];
    if (!owns || number === 0) continue;
    if (chain === "") owns.quotas[type] = number;
    else owns.cells.push({ chain, cell_type: type, number });
  }
  const pins = Object.values(draft.pins).sort((a, b) => a.name.localeCompare(b.name));
  for (const pin of pins) virtual_clusters[pin.vc]?.pins.push(pin.name);
  return {
    revision,
    virtual_clusters,
    pins: pins.map(({ name, cell_type, node, device }) => ({ name, cell_type, node, device })),
  };
}

export function withClaim(draft: Draft, field: Field, number: number): Draft {
  return { ...draft, claims: { ...draft.claims, [keyOf(field)]: number } };
}

export function withPin(draft: Draft, name: string, pin: Pin | null): Draft {
  const others = Object.entries(draft.pins).filter(([each]) => each !== name);
  return { ...draft, pins: Object.fromEntries(pin ? [...others, [name, pin]] : others) };
}

/** All that is otherwise in `draft` than in `base`, ordered by whom it is about. */
export function changes(base: Draft, draft: Draft): Change[] {
  const claims = keys(base.claims, draft.claims)
    .map((key) => ({
      kind: "claim" as const,
      key,
      field: fieldOf(key),
      from: base.claims[key] ?? 0,
      to: draft.claims[key] ?? 0,
    }))
    .filter((change) => change.from !== change.to);
  const pins = keys(base.pins, draft.pins)
    .map((key) => ({
      kind: "pin" as const,
      key,
      from: base.pins[key] ?? null,
      to: draft.pins[key] ?? null,
    }))
    .filter((change) => !samePin(change.from, change.to));
  return [...claims, ...pins];
}

/** The draft without one of its changes. */
export function without(draft: Draft, change: Change): Draft {
  return change.kind === "claim"
    ? withClaim(draft, change.field, change.from)
    : withPin(draft, change.key, change.from);
}

/** Applies the changes from `base` to `mine` to what another user saved meanwhile. */
export function rebase(base: Draft, mine: Draft, fresh: Draft): Draft {
  return changes(base, mine).reduce((draft, change) => {
    if (change.kind === "pin") return withPin(draft, change.key, change.to);
    return fresh.vcs.includes(change.field.vc) ? withClaim(draft, change.field, change.to) : draft;
  }, fresh);
}

/** Keys that both changed, and differently: saving `mine` undoes the other's change. */
export function clashes(base: Draft, mine: Draft, fresh: Draft): Set<string> {
  const theirs = new Map(changes(base, fresh).map((change) => [change.key, change]));
  const both = changes(base, mine).filter((change) => {
    const other = theirs.get(change.key);
    return other && !sameTarget(change, other);
  });
  return new Set(both.map((change) => change.key));
}

function sameTarget(a: Change, b: Change): boolean {
  if (a.kind === "claim" && b.kind === "claim") return a.to === b.to;
  return a.kind === "pin" && b.kind === "pin" && samePin(a.to, b.to);
}

function samePin(a: Pin | null, b: Pin | null): boolean {
  if (!a || !b) return a === b;
  return a.vc === b.vc && a.cell_type === b.cell_type && a.node === b.node && a.device === b.device;
}

function keys(a: object, b: object): string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].sort();
}
