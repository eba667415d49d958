import { SegmentedControl } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { vcHistory } from "@/api/virtualClusters";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { Legend } from "@/ui/Legend";
import { SkeletonRows } from "@/ui/Skeleton";
import { StaleNote } from "@/ui/StaleNote";
import { type Range, RANGES } from "../searchParams";
import { UsageChart } from "./UsageChart";
import { toUsage } from "./shapes";
import css from "./HistoryTab.module.css";

const REFRESH_MS = 60_000;

/** What it owned, used, borrowed and lent over the last hours or days, per GPU model. */
export function HistoryTab({ name, range }: { name: string; range: Range }) {
  const navigate = useNavigate({ from: "/virtual-clusters/$name" });
  const { seconds, step } = RANGE[range];
  const history = useQuery({
    ...vcHistory(name, seconds, step),
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
  const models = Object.entries(history.data?.models ?? {});
  return (
    <div className={css.page} data-old={history.isPlaceholderData || undefined}>
      <div className={css.tools}>
        <SegmentedControl
          aria-label="Time range"
          value={range}
          onChange={(value) =>
            void navigate({
              search: (old) => ({ ...old, range: value as Range }),
              replace: true,
            })
          }
          data={[...RANGES]}
        />
        <UsageLegend />
      </div>
      <StaleNote query={history} what="history" />
      {history.isPending ? <SkeletonRows rows={5} height={64} /> : null}
      {history.isError && !history.data ? (
        <ErrorState error={history.error} what="history" retry={() => void history.refetch()} />
      ) : null}
      {history.data && models.length === 0 ? (
        <EmptyState title={`Nothing is recorded for the last ${RANGE[range].words}`}>
          Once it owns or uses GPUs, a sample is taken every minute.
        </EmptyState>
      ) : null}
      {models.map(([model, { points }]) => (
        <UsageChart
          key={model}
          model={model}
          points={toUsage(points)}
          step={history.data?.step_s ?? step}
          seconds={seconds}
        />
      ))}
    </div>
  );
}

const LEGEND = [
  ["used", "Used"],
  ["borrowed", "Borrowed from others"],
  ["lent", "Lent to others"],
  ["bad", "Bad"],
  ["owned", "Owned"],
] as const;

function UsageLegend() {
  return (
    <Legend className={css.key}>
      {LEGEND.map(([part, word]) => (
        <li key={part}>
          <i data-part={part} /> {word}
        </li>
      ))}
    </Legend>
  );
}

const HOUR = 3600;

/** Seconds that a range covers, and of one point of it. */
const RANGE: Record<Range, { seconds: number; step: number; words: string }> = {
  "6h": { seconds: 6 * HOUR, step: 60, words: "6 hours" },
  "24h": { seconds: 24 * HOUR, step: 300, words: "24 hours" },
  "7d": { seconds: 7 * 24 * HOUR, step: HOUR / 2, words: "7 days" },
  "30d": { seconds: 30 * 24 * HOUR, step: 2 * HOUR, words: "30 days" },
};
