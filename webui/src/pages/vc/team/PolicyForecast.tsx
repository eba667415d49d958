import { Button, Progress } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { errorMessage } from "@/api/errors";
import { forecastPolicy, isActive, simulation } from "@/api/simulations";
import type { VirtualCluster } from "@/api/types";
import { ForecastAnswer } from "@/features/simulations/ForecastAnswer";
import { percentDone } from "@/features/simulations/labels";
import { ReadNote } from "@/ui/ReadNote";
import css from "./PolicyForecast.module.css";

type Choice = VirtualCluster["policy"];

/** What another policy would do to the present queue, before it is saved. */
export function PolicyForecast({ vc, policy }: { vc: string; policy: Choice }) {
  const asked = useMutation({ mutationFn: () => forecastPolicy(vc, policy) });
  const id = asked.data?.id;
  const found = useQuery({ ...simulation(id ?? ""), enabled: id !== undefined });
  if (!id) {
    return (
      <div className={css.forecast} aria-label="Forecast" role="group">
        {asked.error ? <p role="alert">{errorMessage(asked.error)}</p> : null}
        <p className={css.note}>
          Jobs that wait and run now are simulated under both policies. Nothing is changed by it.
        </p>
        <div>
          <Button
            size="xs"
            variant="default"
            loading={asked.isPending}
            onClick={() => asked.mutate()}
          >
            Forecast
          </Button>
        </div>
      </div>
    );
  }
  const data = found.data ?? asked.data;
  return (
    <section className={css.forecast} aria-label="Forecast">
      <ReadNote query={found} what="forecast" />
      {data && isActive(data) ? (
        <div role="status">
          <Progress value={percentDone(data)} aria-label="Progress of the forecast" animated />
          {data.state === "QUEUED" ? "Waits for another simulation" : "Simulating"}
        </div>
      ) : null}
      {data?.error ? <p role="alert">{data.error.message}</p> : null}
      {data?.forecast ? <ForecastAnswer forecast={data.forecast} /> : null}
    </section>
  );
}
