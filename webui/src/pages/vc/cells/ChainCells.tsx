import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Fragment, useMemo, useState } from "react";
import type { Chain } from "@/api/types";
import type { OwnedType, VcChain } from "@/api/virtualClusters";
import { shortModel } from "@/format/names";
import { ReadNote } from "@/ui/ReadNote";
import { CellTree } from "./CellTree";
import { groupByNode as toNodes } from "./groupByNode";
import { countByLabel, UNUSABLE } from "./labels";
import { jobsOn, levelsOf, ownCells } from "./treeCell";
import { useLazyCells } from "./useLazyCells";
import css from "./ChainCells.module.css";

interface Props {
  name: string;
  chain: VcChain;
  /** All cell types of the cluster. */
  all: Chain[];
  overNodes: boolean;
}

/** What is owned of one kind of nodes: numbers by type, and the cells themselves. */
export function ChainCells({ name, chain: first, all, overNodes }: Props) {
  const { chain, unread, ask, askMore } = useLazyCells(name, first);
  const [litJob, setLitJob] = useState<string | null>(null);
  const levels = useMemo(() => levelsOf(all, chain.chain), [all, chain.chain]);
  const own = useMemo(() => ownCells(chain, levels), [chain, levels]);
  const placed = useMemo(() => toNodes(chain, levels), [chain, levels]);
  const jobs = useMemo(() => jobsOn(own), [own]);
  const treeCells = overNodes ? placed.nodes : own;
  const model = shortModel(chain.gpu_model);
  return (
    <section className={css.chain} aria-label={chain.gpu_model}>
      <header className={css.head}>
        <h2 title={chain.gpu_model}>{model}</h2>
        <span className="dim clip" title="The chain: nodes of this shape">
          {chain.chain}
        </span>
      </header>
      <CellTypeBars types={chain.types} />
      <JobList jobs={jobs} lit={litJob} onLight={setLitJob} />
      {treeCells.length > 0 ? (
        <CellTree
          label={`${model}: cells ${overNodes ? "on their nodes" : "as they are owned"}`}
          treeCells={treeCells}
          litJob={litJob}
          onLoad={ask}
        />
      ) : null}
      {overNodes && placed.unplaced.length > 0 ? (
        <p className={css.unplaced}>
          {placed.nodes.length > 0 ? "Not used yet: " : "Nothing is used yet: "}
          {countByLabel(placed.unplaced)}. A cell gets its place when a job needs it.
        </p>
      ) : null}
      {unread ? <ReadNote query={unread} what="rest of the cells" /> : null}
      {chain.more > 0 ? (
        <Button variant="default" className={css.more} onClick={askMore}>
          Show more ({chain.more} left)
        </Button>
      ) : null}
    </section>
  );
}

/** Per type of cell, how much of what is owned is used, lent, free, bad or missing. */
function CellTypeBars({ types }: { types: OwnedType[] }) {
  return (
    <ul className={css.types} aria-label="Cells by type">
      {types.map((type) => (
        <li key={type.type} className={css.type}>
          <span className={css.words}>
            <b className="num">{type.owned}</b> × {type.words}
          </span>
          <Bar type={type} />
          <span className={css.numbers}>
            {partsOf(type).map(({ part, number, words }) => (
              <Fragment key={part}>
                {number > 0 || part === "used" ? (
                  <span data-part={part}>
                    <b className="num">{number}</b> {words}
                  </span>
                ) : null}
              </Fragment>
            ))}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Bar({ type }: { type: OwnedType }) {
  const parts = partsOf(type);
  const words = parts.map(({ number, words }) => `${number} ${words}`).join(", ");
  return (
    <span className={css.bar} role="img" aria-label={`${type.words}: ${words}`}>
      {parts.map(({ part, number }) =>
        number > 0 ? <span key={part} data-part={part} style={{ flexGrow: number }} /> : null,
      )}
    </span>
  );
}

/** In the order of the bar; together they are all that is owned. */
function partsOf({ used, free, bad, missing, borrowed_out: lent }: OwnedType) {
  return [
    { part: "used", number: used, words: "in use" },
    { part: "lent", number: lent, words: "lent out" },
    { part: "free", number: free, words: "free" },
    { part: "bad", number: bad, words: UNUSABLE },
    { part: "missing", number: missing, words: "missing" },
  ];
}

interface JobChipsProps {
  jobs: { id: string; name: string; gpus: number }[];
  lit: string | null;
  onLight: (job: string | null) => void;
}

const MAX_SHOWN = 16;

/** The jobs on these cells; pointing at one shows where it lies. */
function JobList({ jobs, lit, onLight }: JobChipsProps) {
  if (jobs.length === 0) return null;
  return (
    <ul className={css.chips} aria-label="Jobs on these cells" onPointerLeave={() => onLight(null)}>
      {jobs.slice(0, MAX_SHOWN).map(({ id, name, gpus }) => (
        <li key={id}>
          <Link
            to="/jobs/$id"
            params={{ id }}
            className={css.chip}
            data-lit={lit === id || undefined}
            onPointerEnter={() => onLight(id)}
            onFocus={() => onLight(id)}
            onBlur={() => onLight(null)}
          >
            <span className="clip">{name}</span>
            <span className="sr-only">: </span>
            <span className={css.gpus}>{gpus.toLocaleString("en")}</span>
            <span className="sr-only"> {gpus === 1 ? "GPU" : "GPUs"}</span>
          </Link>
        </li>
      ))}
      {jobs.length > MAX_SHOWN ? <li className="dim">and {jobs.length - MAX_SHOWN} more</li> : null}
    </ul>
  );
}
