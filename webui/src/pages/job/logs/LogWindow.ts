import type { LogChunk } from "@/api/types";
import { assemble, Assembler, type Line } from "./assemble";

/** What is held in memory of a log that may be much larger: about so many characters. */
export const WINDOW_SIZE = 8_000_000;
// Dropping goes below the limit, so that it happens now and then instead of with every chunk.
const KEPT = 0.8;

/** A stretch of consecutive chunks of a log, and its lines. Growing at one end beyond the limit
 * drops chunks from the other. */
export class LogWindow {
  private chunks: LogChunk[] = [];
  private assembler = new Assembler();
  private held = 0;

  constructor(private readonly limit = WINDOW_SIZE) {}

  get lines(): readonly Line[] {
    return this.assembler.lines;
  }

  /** Cursor of the oldest chunk held. */
  get first(): number | undefined {
    return this.chunks[0]?.cursor;
  }

  /** Cursor of the newest chunk held. */
  get last(): number | undefined {
    return this.chunks.at(-1)?.cursor;
  }

  /** Adds newer chunks; true when older ones were dropped for them. */
  append(newer: LogChunk[]): boolean {
    for (const chunk of newer) this.assembler.push(chunk);
    this.chunks.push(...newer);
    this.held += weigh(newer);
    if (this.held <= this.limit) return false;
    this.drop(() => this.chunks.shift());
    this.assembler.dropBefore(this.first ?? Infinity);
    return true;
  }

  /** Adds older chunks; true when newer ones were dropped for them. */
  prepend(older: LogChunk[]): boolean {
    this.chunks.unshift(...older);
    this.held += weigh(older);
    const full = this.held > this.limit;
    if (full) this.drop(() => this.chunks.pop());
    // Lines that were cut at the old beginning are whole now.
    this.assembler = assemble(this.chunks);
    return full;
  }

  clear(): void {
    this.chunks = [];
    this.assembler = new Assembler();
    this.held = 0;
  }

  private drop(takeOne: () => LogChunk | undefined): void {
    while (this.held > this.limit * KEPT && this.chunks.length > 1) {
      const taken = takeOne();
      if (taken) this.held -= weight(taken);
    }
  }
}

/** What a line costs beside its characters. */
const LINE_COST = 40;

function weight({ text }: LogChunk): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines += 1;
  return text.length + lines * LINE_COST;
}

function weigh(chunks: LogChunk[]): number {
  return chunks.reduce((sum, chunk) => sum + weight(chunk), 0);
}
