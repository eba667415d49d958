import type { GridNode } from "@/api/grid";

/** What is out of the ordinary about a node, in a word or two; undefined when nothing is. */
export function nodeStatusLabel(
  node: Pick<GridNode, "state" | "draining" | "cordoned">,
): string | undefined {
  if (node.state === "UNREACHABLE") return "unreachable";
  if (node.state === "LOST") return "lost";
  if (node.state === "JOINED") return "never connected";
  if (node.state === "REMOVED") return "removed";
  if (node.draining) return "draining";
  return node.cordoned ? "cordoned" : undefined;
}
