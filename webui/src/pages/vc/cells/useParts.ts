import { useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { vcCellPart, type CellPart, type VcCells, type VcChain } from "@/api/vc";
import { withChildren } from "./model";

/** A chain with all that was asked for beyond its first cells. */
export function useParts(name: string, told: VcChain) {
  const [asked, setAsked] = useState<CellPart[]>([]);
  const answers = useQueries({
    queries: asked.map((part) => vcCellPart(name, part)),
    combine: (results) => results.map((result) => result.data),
  });
  const chain = useMemo(() => merged(told, asked, answers), [told, asked, answers]);

  function ask(part: CellPart) {
    const key = JSON.stringify(part);
    setAsked((old) => (old.some((each) => JSON.stringify(each) === key) ? old : [...old, part]));
  }

  return {
    chain,
    ask: (under: string) => ask({ chain: told.chain, under }),
    askMore: () => {
      const after = chain.cells.at(-1)?.address;
      if (after !== undefined) ask({ chain: told.chain, after });
    },
  };
}

function merged(told: VcChain, asked: CellPart[], answers: (VcCells | undefined)[]): VcChain {
  const inside = new Map<string, VcChain["cells"]>();
  let { cells, more } = told;
  asked.forEach((part, index) => {
    const found = answers[index]?.chains.find((each) => each.chain === told.chain);
    if (!found) return;
    if ("under" in part) {
      const cell = found.cells.find((each) => each.address === part.under);
      inside.set(part.under, cell?.children ?? found.cells);
    } else {
      cells = [...cells, ...found.cells];
      more = found.more;
    }
  });
  return { ...told, cells: withChildren(cells, inside), more };
}
