import type { LogChunk, Stream } from "@/api/types";
import { lineNumber, type Line } from "./assemble";

/** A place in the output of a job: bytes from the start of one stream of one task attempt. The
 * cursor says from where to read; it is the same in the merged log and in that of one task. */
export type LinePlace = Pick<LogChunk, "cursor" | "attempt_id" | "stream" | "offset">;

const LINK = /^(\d{1,18})\.(stdout|stderr)\.(\d{1,15})\.([0-9a-f-]{36})$/;

/** What the address of a page holds to lead to a line. */
export function lineLink(line: Line): string {
  const { cursor, stream, offset, attempt_id, text } = line.chunk;
  const before = text.split("\n").slice(0, lineNumber(line));
  const bytes = before.reduce((sum, part) => sum + new TextEncoder().encode(part).length + 1, 0);
  return `${cursor}.${stream}.${offset + bytes}.${attempt_id}`;
}

/** Null for what is no link to a line. */
export function parseLineLink(link: string): LinePlace | null {
  const [, cursor, stream, offset, attempt_id] = LINK.exec(link) ?? [];
  if (!cursor || !offset || !attempt_id) return null;
  return { cursor: Number(cursor), stream: stream as Stream, offset: Number(offset), attempt_id };
}
