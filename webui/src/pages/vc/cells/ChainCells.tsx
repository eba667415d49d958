import { Button } from "@mantine/core";
import { useMemo, useState } from "react";
import type { Chain } from "@/api/types";
import type { VcChain } from "@/api/vc";
import { shortModel } from "@/format/names";
import { CombTree } from "./CombTree";
import { JobChips } from "./JobChips";
import { jobsOn, levelsOf, ownCells } from "./model";
import { overNodes as toNodes } from "./nodes";
import { TypeBars } from "./TypeBars";
import { useParts } from "./useParts";
import { countByWords } from "./words";
import css from "./ChainCells.module.css";

interface Props {
  name: string;
  chain: VcChain;
  /** All cell types of the cluster. */
  all: Chain[];
  overNodes: boolean;
}

/** What is owned of one kind of nodes: numbers by type, and the cells themselves. */
export function ChainCells({ name, chain: told, all, overNodes }: Props) {
  const { chain, ask, askMore } = useParts(name, told);
  const [litJob, setLitJob] = useState<string | null>(null);
  const levels = useMemo(() => levelsOf(all, chain.chain), [all, chain.chain]);
  const own = useMemo(() => ownCells(chain, levels), [chain, levels]);
  const placed = useMemo(() => toNodes(chain, levels), [chain, levels]);
  const jobs = useMemo(() => jobsOn(own), [own]);
  const combs = overNodes ? placed.nodes : own;
  const model = shortModel(chain.gpu_model);
  return (
    <section className={css.chain} aria-label={chain.gpu_model}>
      <header className={css.head}>
        <h2 title={chain.gpu_model}>{model}</h2>
        <span className="dim clip" title="The chain: nodes of this shape">
          {chain.chain}
        </span>
      </header>
      <TypeBars types={chain.types} />
      <JobChips jobs={jobs} lit={litJob} onLight={setLitJob} />
      {combs.length > 0 ? (
        <CombTree
          label={`${model}: cells ${overNodes ? "on their nodes" : "as they are owned"}`}
          combs={combs}
          litJob={litJob}
          onLoad={ask}
        />
      ) : null}
      {overNodes && placed.unplaced.length > 0 ? (
        <p className={css.unplaced}>
          {placed.nodes.length > 0 ? "Not used yet: " : "Nothing is used yet: "}
          {countByWords(placed.unplaced)}. A cell gets its place when a job needs it.
        </p>
      ) : null}
      {chain.more > 0 ? (
        <Button variant="default" className={css.more} onClick={askMore}>
          Show more ({chain.more} left)
        </Button>
      ) : null}
    </section>
  );
}
