import { Button, Checkbox, MultiSelect, SegmentedControl, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useState } from "react";
import { errorMessage } from "@/api/errors";
import {
  createSimulation,
  type Placement,
  type SimulatedCluster,
  simulatedCluster,
  type SimulationBody,
  type SimulationOptions,
  simulations,
} from "@/api/simulations";
import { AmountField } from "@/features/job-file/AmountField";
import { shortModel } from "@/format/names";
import { Icon } from "@/ui/Icon";
import { ReadNote } from "@/ui/ReadNote";
import type { SimulatorSearch } from "./searchParams";
import { byFamily, policyLabel } from "@/features/simulations/labels";
import css from "./simulator.module.css";

const WHOLE = "";
const MORE_GPUS = 16;
const DAY_MS = 86_400_000;
const DEFAULT_POLICIES = ["priority_ageing", "srtf"];

type Source = SimulationBody["source"];

interface Change {
  vc: string;
  model: string;
  gpus: number;
}

/** Policies, jobs, and what is to be different. */
export function QuestionForm({ options }: { options: SimulationOptions }) {
  const search: SimulatorSearch = useSearch({ from: "/shell/simulator" });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [vc, setVc] = useState(firstScope(options, search.vc));
  const [source, setSource] = useState<Source>("history");
  const [days, setDays] = useState("30");
  const [jobs, setJobs] = useState(300);
  const [load, setLoad] = useState(90);
  const [seed, setSeed] = useState(0);
  const [placement, setPlacement] = useState<Placement>("cells");
  const [policies, setPolicies] = useState(search.policies?.split(",") ?? DEFAULT_POLICIES);
  const [changes, setChanges] = useState<Change[]>([]);
  const [policyOf, setPolicyOf] = useState(WHOLE);
  const [nodesAsWere, setNodesAsWere] = useState(true);
  const now = source === "now";
  const engine = now ? "cells" : placement;
  const replaysNodes = source === "history" && engine === "cells" && !vc;
  const known = options.policies.filter(({ placements }) => placements.includes(engine));
  const chosen = policies.filter((name) => known.some((policy) => policy.name === name));
  const asking = useMutation({
    mutationFn: createSimulation,
    onSuccess: async (made) => {
      void queries.invalidateQueries({ queryKey: simulations.queryKey });
      await navigate({ to: "/simulator/$id", params: { id: made.id } });
    },
  });

  function submit(event: FormEvent) {
    event.preventDefault();
    asking.mutate({
      virtual_cluster: vc,
      source,
      ...lastDays(Number(days)),
      jobs,
      load: load / 100,
      seed,
      restart_s: 0,
      placement: engine,
      policies: chosen,
      policy_of: now && !vc ? policyOf : WHOLE,
      node_events: replaysNodes && nodesAsWere,
      changes: changes
        .filter(({ gpus }) => gpus !== 0)
        .map((change) => ({
          virtual_cluster: now ? change.vc : vc || change.vc,
          gpu_model: change.model,
          gpus: change.gpus,
        })),
    });
  }

  return (
    <form className={css.form} onSubmit={submit} aria-label="What to simulate">
      <div className={css.line}>
        <Select
          label="Whose jobs and GPUs"
          data={scopesOf(options)}
          value={vc}
          onChange={(value) => {
            setVc(value ?? WHOLE);
            setChanges([]);
          }}
          allowDeselect={false}
          w={220}
        />
        <Select
          label="Jobs"
          data={[
            { value: "7", label: "of the last 7 days" },
            { value: "30", label: "of the last 30 days" },
            { value: "90", label: "of the last 90 days" },
            { value: "made_up", label: "made up" },
            { value: "now", label: "that wait and run now" },
          ]}
          value={source === "history" ? days : source}
          onChange={(value) => {
            if (value === "made_up" || value === "now") setSource(value);
            else setSource("history");
            if (value && value !== "made_up" && value !== "now") setDays(value);
            if ((value === "now") !== now) setChanges([]);
            if (value === "now" && policies === DEFAULT_POLICIES) setPolicies(["srtf"]);
          }}
          allowDeselect={false}
          w={190}
        />
        {source === "made_up" ? (
          <>
            <AmountField
              label="Number of jobs"
              value={jobs}
              onChange={setJobs}
              min={1}
              max={options.most_jobs[engine]}
              allowDecimal={false}
              allowNegative={false}
              w={130}
            />
            <AmountField
              label="Load"
              suffix="%"
              value={load}
              onChange={setLoad}
              min={5}
              max={500}
              allowNegative={false}
              w={90}
            />
            <AmountField
              label="Seed"
              value={seed}
              onChange={setSeed}
              min={0}
              allowDecimal={false}
              allowNegative={false}
              w={90}
            />
          </>
        ) : null}
      </div>
      <div className={css.line}>
        <MultiSelect
          label={now ? "Other policies" : "Policies"}
          description={
            now
              ? `Up to ${options.most_policies}, or none, compared to the present one.`
              : `Up to ${options.most_policies}, side by side; the others are compared to the first.`
          }
          data={byFamily(known, ({ name }) => policyLabel(name))}
          value={chosen}
          onChange={setPolicies}
          maxValues={options.most_policies}
          searchable
          className={css.wide}
        />
        {now && !vc ? (
          <Select
            label="Of"
            data={[
              { value: WHOLE, label: "all virtual clusters" },
              ...options.virtual_clusters.map((name) => ({ value: name, label: name })),
            ]}
            value={policyOf}
            onChange={(value) => setPolicyOf(value ?? WHOLE)}
            allowDeselect={false}
            w={190}
          />
        ) : null}
        {now ? null : (
          <SegmentedControl
            aria-label="How jobs find GPUs"
            value={placement}
            onChange={(value) => {
              setPlacement(value as Placement);
            }}
            data={[
              { value: "cells", label: "As the live scheduler" },
              { value: "nodes", label: "Fast, one pool" },
            ]}
          />
        )}
      </div>
      {replaysNodes ? (
        <Checkbox
          label="Nodes as they were"
          description="They are drained, lost and opened when they were."
          checked={nodesAsWere}
          onChange={(event) => setNodesAsWere(event.currentTarget.checked)}
        />
      ) : null}
      <p className={css.about}>
        {now
          ? "What runs goes on where it is, what waits is placed by the live engine"
          : engine === "cells"
            ? "The live engine with cells, reservations and preemption"
            : "Without virtual clusters and cells"}
        : up to {options.most_jobs[engine]?.toLocaleString("en")} jobs and{" "}
        {options.most_seconds / 60} minutes.
      </p>
      <Changes options={options} vc={vc} now={now} changes={changes} onChange={setChanges} />
      {asking.error ? (
        <p className={css.error} role="alert">
          {errorMessage(asking.error)}
        </p>
      ) : null}
      <div>
        <Button type="submit" loading={asking.isPending} disabled={!now && chosen.length === 0}>
          Simulate
        </Button>
      </div>
    </form>
  );
}

function lastDays(days: number) {
  const now = Date.now();
  return { since: new Date(now - days * DAY_MS).toISOString(), until: new Date(now).toISOString() };
}

interface ChangesProps {
  options: SimulationOptions;
  vc: string;
  now: boolean;
  changes: Change[];
  onChange: (changes: Change[]) => void;
}

/** What if a virtual cluster, or from now on the cluster, had more GPUs, or fewer? */
function Changes({ options, vc, now, changes, onChange }: ChangesProps) {
  const query = useQuery(simulatedCluster);
  const { data: cluster } = query;
  const models = [...new Set(cluster?.groups.map(({ gpu_model }) => gpu_model))];
  const names = vc ? [vc] : options.virtual_clusters;
  const add = (of: string) =>
    onChange([...changes, { vc: of, model: models[0] ?? "", gpus: sizeOf(cluster, models[0]) }]);
  const set = (index: number, part: Partial<Change>) =>
    onChange(changes.map((change, at) => (at === index ? { ...change, ...part } : change)));
  return (
    <fieldset className={css.group}>
      <legend>What if</legend>
      <ReadNote query={query} what="list of the cluster's GPUs" />
      {changes.map((change, index) => (
        <div className={css.line} key={index}>
          {vc && !now ? null : (
            <Select
              aria-label={now ? "What changes" : "Virtual cluster that changes"}
              data={[
                ...names.map((name) => ({ value: name, label: now ? `quota of ${name}` : name })),
                { value: WHOLE, label: now ? "nodes of the cluster" : "GPUs that no one owns" },
              ]}
              value={change.vc}
              onChange={(value) => set(index, { vc: value ?? WHOLE })}
              allowDeselect={false}
              w={170}
            />
          )}
          <AmountField
            aria-label="GPUs more, or fewer"
            value={change.gpus}
            onChange={(gpus) => set(index, { gpus })}
            prefix={change.gpus > 0 ? "+" : ""}
            min={-100_000}
            max={100_000}
            allowDecimal={false}
            w={100}
          />
          <Select
            aria-label="GPU model"
            data={models.map((model) => ({ value: model, label: shortModel(model) }))}
            value={change.model}
            onChange={(value) => set(index, { model: value ?? "" })}
            allowDeselect={false}
            w={190}
          />
          <Button
            variant="subtle"
            onClick={() => onChange(changes.filter((_, at) => at !== index))}
            aria-label="Remove this change"
          >
            <Icon name="cross" size={14} />
          </Button>
        </div>
      ))}
      <div className={css.line}>
        {now ? (
          <AddButton disabled={models.length === 0} onClick={() => add(WHOLE)}>
            the cluster had more or fewer nodes
          </AddButton>
        ) : null}
        <AddButton disabled={models.length === 0} onClick={() => add(names[0] ?? WHOLE)}>
          {now
            ? `${vc || "a virtual cluster"} had another quota`
            : `${vc || "a virtual cluster"} had more or fewer GPUs`}
        </AddButton>
      </div>
    </fieldset>
  );
}

function AddButton(props: { disabled: boolean; onClick: () => void; children: ReactNode }) {
  return (
    <Button
      variant="default"
      size="xs"
      leftSection={<Icon name="plus" size={12} />}
      type="button"
      {...props}
    />
  );
}

/** Sixteen GPUs, or as many as whole nodes of the model have. */
function sizeOf(cluster: SimulatedCluster | undefined, model: string | undefined): number {
  const size = cluster?.groups.find(({ gpu_model }) => gpu_model === model)?.gpus ?? MORE_GPUS;
  return Math.ceil(MORE_GPUS / size) * size;
}

function scopesOf(options: SimulationOptions) {
  const vcs = options.virtual_clusters.map((name) => ({ value: name, label: name }));
  return options.whole_cluster ? [{ value: WHOLE, label: "the whole cluster" }, ...vcs] : vcs;
}

function firstScope(options: SimulationOptions, wanted: string | undefined): string {
  if (wanted && options.virtual_clusters.includes(wanted)) return wanted;
  return options.whole_cluster ? WHOLE : (options.virtual_clusters[0] ?? WHOLE);
}
