import { SegmentedControl, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { me } from "@/api/session";
import type { JobState } from "@/api/types";
import { virtualClusters } from "@/api/virtualClusters";
import { causes } from "@/api/jobs";
import { FilterInput } from "@/ui/FilterInput";
import { stateLabel } from "@/ui/StateBadge";
import { StateIcon } from "@/ui/StateIcon";
import { unreadText } from "@/ui/ReadNote";
import { JOB_STATES, type JobsSearch, statesOf } from "./searchParams";
import { SavedViewsMenu } from "./SavedViewsMenu";
import { TimeFilter } from "./TimeFilter";
import css from "./JobFilters.module.css";

const NONE: string[] = [];

export function JobFilters() {
  const search = useSearch({ from: "/shell/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const { data: user } = useQuery(me);
  const vcs = useQuery({
    ...virtualClusters,
    select: (all) => all.map((vc) => vc.name),
  });

  const names = vcs.data;
  const known = useQuery(causes);
  const whose = whoseJobs(search, user?.username);

  /** A changed filter begins at its first page. */
  function change(part: JobsSearch) {
    void navigate({
      search: (old) => ({ ...old, cursor: undefined, ...part }),
      replace: true,
    });
  }

  return (
    <search className={css.bar} aria-label="Filter jobs">
      <FilterInput
        label="Search jobs by name"
        placeholder="Search  ( / )"
        icon="search"
        value={search.q ?? ""}
        onChange={(q) => change({ q: q || undefined })}
        className={css.search}
      />
      <SegmentedControl
        aria-label="Whose jobs"
        value={whose}
        onChange={(next) =>
          change({
            owner: next === "mine" ? user?.username : undefined,
            shared: next === "shared" || undefined,
          })
        }
        data={[
          { value: "all", label: "All" },
          { value: "mine", label: "Mine" },
          { value: "shared", label: "Shared with me" },
          ...(whose === "other" ? [{ value: "other", label: `Of ${search.owner}` }] : []),
        ]}
      />
      <Select
        aria-label="Virtual cluster"
        placeholder="Any virtual cluster"
        data={names ?? NONE}
        nothingFoundMessage={unreadText(vcs, "list of virtual clusters") ?? "None"}
        value={search.vc ?? null}
        onChange={(vc) => change({ vc: vc ?? undefined })}
        clearable
        searchable={(names?.length ?? 0) > 8}
        w={156}
      />
      <FilterInput
        label="Tags, all of which a job has"
        placeholder="Tags"
        icon="tag"
        value={search.tag?.replaceAll(",", " ") ?? ""}
        onChange={(text) => change({ tag: text.split(/[,\s]+/).join(",") || undefined })}
        className={css.tags}
      />
      <Select
        aria-label="Cause of failure"
        placeholder="Any cause"
        data={causesKnown(known.data?.categories, search.cause)}
        nothingFoundMessage={unreadText(known, "list of causes") ?? "No such cause"}
        value={search.cause ?? null}
        onChange={(cause) => change({ cause: cause ?? undefined })}
        clearable
        searchable
        w={156}
      />
      <TimeFilter since={search.since} until={search.until} onChange={change} />
      <SavedViewsMenu search={search} />
      <StateFilter
        chosen={statesOf(search.state)}
        onChange={(states) => change({ state: states.join(",") || undefined })}
      />
    </search>
  );
}

/** The categories, and what the address has where that is another cause. */
function causesKnown(categories: string[] = NONE, chosen: string | undefined): string[] {
  return chosen && !categories.includes(chosen) ? [chosen, ...categories] : categories;
}

function whoseJobs({ shared, owner }: JobsSearch, me: string | undefined): string {
  if (shared) return "shared";
  if (!owner) return "all";
  return owner === me ? "mine" : "other";
}

interface Props {
  chosen: JobState[];
  onChange: (states: JobState[]) => void;
}

/** Any number of states; none chosen means all. */
function StateFilter({ chosen, onChange }: Props) {
  function toggle(state: JobState) {
    onChange(chosen.includes(state) ? chosen.filter((each) => each !== state) : [...chosen, state]);
  }
  return (
    <div className={css.chips} role="group" aria-label="States">
      {JOB_STATES.map((state) => (
        <button
          key={state}
          type="button"
          className={css.chip}
          aria-pressed={chosen.includes(state)}
          onClick={() => toggle(state)}
        >
          <StateIcon state={state} size={13} />
          {stateLabel(state)}
        </button>
      ))}
    </div>
  );
}
