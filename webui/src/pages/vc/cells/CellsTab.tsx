import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { cells as allCells } from "@/api/cells";
import { vcCells } from "@/api/virtualClusters";
import { pluralize } from "@/format/numbers";
import { useLiveQueries, usePoll } from "@/live/live";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { SkeletonRows } from "@/ui/Skeleton";
import { StaleNote } from "@/ui/StaleNote";
import { ChainCells } from "./ChainCells";
import { CellLegend } from "./CellLegend";
import css from "./CellsTab.module.css";

interface Props {
  name: string;
  admin: boolean;
  over: "nodes" | undefined;
}

/** What the virtual cluster owns and how it is used, type by type and GPU by GPU. */
export function CellsTab({ name, admin, over }: Props) {
  const query = vcCells(name);
  const navigate = useNavigate({ from: "/virtual-clusters/$name" });
  const own = useQuery({ ...query, refetchInterval: usePoll() });
  const all = useQuery(allCells);
  useLiveQueries("cluster", "", [query.queryKey], 1500);
  useLiveQueries("jobs", "", [query.queryKey], 1500);

  if (own.isPending || all.isPending) return <SkeletonRows rows={6} height={64} />;
  if (!own.data || !all.data) {
    const retry = () => void Promise.all([own.refetch(), all.refetch()]);
    return <ErrorState error={own.error ?? all.error} what="cells" retry={retry} />;
  }
  const { chains, borrowed_in, shortfalls } = own.data;
  const note = <StaleNote query={own} what="cells" />;
  if (chains.length === 0) {
    return (
      <>
        {note}
        <NoCells admin={admin} borrowed={borrowed_in} />
      </>
    );
  }
  return (
    <div className={css.page}>
      {note}
      <div className={css.tools}>
        <SegmentedControl
          aria-label="Cells as"
          value={over ?? "own"}
          onChange={(value) =>
            void navigate({
              search: (old) => ({ ...old, over: value === "nodes" ? "nodes" : undefined }),
              replace: true,
            })
          }
          data={[
            { value: "own", label: "As the virtual cluster sees it" },
            { value: "nodes", label: "On the nodes" },
          ]}
        />
        {borrowed_in > 0 ? (
          <span className={css.borrowed}>
            + {pluralize(borrowed_in, "idle GPU")} used by its opportunistic jobs
          </span>
        ) : null}
        <CellLegend others={over === "nodes"} />
      </div>
      {shortfalls.length > 0 ? (
        <ul className={css.shortfalls} role="alert">
          {shortfalls.map(({ cell_type, asked, got }) => (
            <li key={cell_type}>
              Given {asked} × {cell_type}, but the cluster has only {got} of them at present.
            </li>
          ))}
        </ul>
      ) : null}
      {chains.map((chain) => (
        <ChainCells
          key={chain.chain}
          name={name}
          chain={chain}
          all={all.data.chains}
          overNodes={over === "nodes"}
        />
      ))}
    </div>
  );
}

function NoCells({ admin, borrowed }: { admin: boolean; borrowed: number }) {
  const now = borrowed > 0 ? ` Now they use ${pluralize(borrowed, "GPU")}.` : "";
  return (
    <EmptyState title="It owns no GPUs">
      {admin
        ? `Give it some under “Settings”, or whole cells in the cells editor.${now}`
        : `Its jobs can run as opportunistic ones, on what others leave idle.${now}`}
    </EmptyState>
  );
}
