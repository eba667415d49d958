import { SegmentedControl } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { vcHistory } from "@/api/vc";
import { Blank, Failure } from "@/ui/Blank";
import { SkeletonRows } from "@/ui/Skeleton";
import { RANGES, type Range } from "../search";
import { RANGE } from "./ranges";
import { toUse } from "./shapes";
import { UseChart } from "./UseChart";
import { UseKey } from "./UseKey";
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
        <UseKey />
      </div>
      {history.isPending ? <SkeletonRows rows={5} height={64} /> : null}
      {history.isError && !history.data ? (
        <Failure error={history.error} what="history" retry={() => void history.refetch()} />
      ) : null}
      {history.data && models.length === 0 ? (
        <Blank title={`Nothing is recorded for the last ${RANGE[range].words}`}>
          Once it owns or uses GPUs, a sample is taken every minute.
        </Blank>
      ) : null}
      {models.map(([model, { points }]) => (
        <UseChart
          key={model}
          model={model}
          points={toUse(points)}
          step={history.data?.step_s ?? step}
          seconds={seconds}
        />
      ))}
    </div>
  );
}
