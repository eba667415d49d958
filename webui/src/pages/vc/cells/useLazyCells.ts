import { useQueries, type UseQueryResult } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { vcCellPart, type CellPart, type VcCells, type VcChain } from "@/api/virtualClusters";
import { isUnread } from "@/ui/ReadNote";
import { withChildren } from "./treeCell";

/** A chain with all that was asked for beyond its first cells. */
export function useLazyCells(name: string, first: VcChain) {
  const [asked, setAsked] = useState<CellPart[]>([]);
  const { answers, unread } = useQueries({
    queries: asked.map((part) => vcCellPart(name, part)),
    combine,
  });
  const chain = useMemo(() => mergeParts(first, asked, answers), [first, asked, answers]);

  function ask(part: CellPart) {
    const key = JSON.stringify(part);
    setAsked((old) => (old.some((each) => JSON.stringify(each) === key) ? old : [...old, part]));
  }

  return {
    chain,
    /** A part that was asked for and could not be read. */
    unread,
    ask: (under: string) => ask({ chain: first.chain, under }),
    askMore: () => {
      const after = chain.cells.at(-1)?.address;
      if (after !== undefined) ask({ chain: first.chain, after });
    },
  };
}

function combine(results: UseQueryResult<VcCells>[]) {
  return { answers: results.map((result) => result.data), unread: results.find(isUnread) };
}

function mergeParts(first: VcChain, asked: CellPart[], answers: (VcCells | undefined)[]): VcChain {
  const inside = new Map<string, VcChain["cells"]>();
  let { cells, more } = first;
  asked.forEach((part, index) => {
    const found = answers[index]?.chains.find((each) => each.chain === first.chain);
    if (!found) return;
    if ("under" in part) {
      const cell = found.cells.find((each) => each.address === part.under);
      inside.set(part.under, cell?.children ?? found.cells);
    } else {
      cells = [...cells, ...found.cells];
      more = found.more;
    }
  });
  return { ...first, cells: withChildren(cells, inside), more };
}
