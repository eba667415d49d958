import type { AuditEntry } from "@/api/types";

export interface Change {
  name: string;
  before: unknown;
  after: unknown;
}

/** Who did it, as it is shown: the name at that time, else what kind of caller it was. */
export function actorOf({ actor }: AuditEntry): string {
  if (actor.name) return actor.kind === "node" ? `node ${actor.name}` : actor.name;
  return actor.kind;
}

export function targetOf({ target }: AuditEntry): string {
  return [target.type, target.name || target.id].filter(Boolean).join(" ");
}

/** "2026-11-22 22:36:41", in the time zone of the browser. */
export function timestamp(at: string): string {
  return new Date(at).toLocaleString("sv-SE");
}

/** Every field that differs, in the order of the change. */
export function changesOf({ before, after }: AuditEntry): Change[] {
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
  return [...names].map((name) => ({ name, before: before?.[name], after: after?.[name] }));
}

/** All of it in one line: what changed, else what else is known. */
export function summaryOf(entry: AuditEntry): string {
  const changes = changesOf(entry).map(({ name, before, after }) =>
    before === undefined
      ? `${name}: ${shown(after)}`
      : `${name}: ${shown(before)} → ${after === undefined ? "–" : shown(after)}`,
  );
  const facts = Object.entries(entry.facts).map(([name, value]) => `${name}: ${shown(value)}`);
  return [...changes, ...facts].join(", ");
}

export function shown(value: unknown): string {
  if (value === null) return "none";
  if (value === "") return "empty";
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) {
    return value.join(", ") || "none";
  }
  return JSON.stringify(value);
}
