import type { LogChunk } from "@/api/types";
import { plainText } from "./ansi";
import { lineKey, type Line } from "./assemble";
import type { LogReader } from "./LogReader";

type Place = Pick<LogChunk, "cursor" | "attempt_id" | "stream" | "offset" | "text">;

/** Goes to a match that the server found, reading the log from there where it is not shown. */
export function useSearchHit(reader: LogReader, go: (index: number | null) => void) {
  return async (hit: Place) => {
    let index = linePositionOf(hit, reader.view.lines);
    if (index === null) {
      await reader.toCursor(hit.cursor);
      index = linePositionOf(hit, reader.view.lines) ?? 0;
    }
    go(index);
  };
}

/** The line that holds the match: its number within the chunk is counted in bytes, as the server
 * does. It may have begun in an earlier chunk; then its text finds it. */
export function linePositionOf(hit: Place, lines: readonly Line[]): number | null {
  const isBefore = ({ chunk }: Line) =>
    chunk.attempt_id === hit.attempt_id &&
    chunk.stream === hit.stream &&
    chunk.offset <= hit.offset;
  const chunk = lines.findLast(isBefore)?.chunk;
  if (!chunk) return null;
  const key = lineKey(chunk, newlines(chunk.text, hit.offset - chunk.offset));
  const exact = lines.findIndex((line) => line.key === key);
  if (exact >= 0) return exact;
  const text = plainText(hit.text);
  const at = lines.findLastIndex((line) => isBefore(line) && plainText(line.text).includes(text));
  return at < 0 ? null : at;
}

/** Newlines among the first `bytes` bytes of a text. */
function newlines(text: string, bytes: number): number {
  const head = new TextEncoder().encode(text).subarray(0, bytes);
  return head.reduce((sum, byte) => sum + (byte === 10 ? 1 : 0), 0);
}
