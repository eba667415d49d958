import { SegmentedControl, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { me } from "@/api/session";
import { virtualClusters } from "@/api/tenancy";
import { Icon, type IconName } from "@/ui/Icon";
import { StateChips } from "./StateChips";
import { statesOf, type JobsSearch } from "./search";
import css from "./JobFilters.module.css";

const NONE: string[] = [];

export function JobFilters() {
  const search = useSearch({ from: "/shell/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const { data: user } = useQuery(me);
  const { data: names } = useQuery({
    ...virtualClusters,
    select: (all) => all.map((vc) => vc.name),
  });

  /** A changed filter begins at its first page. */
  function change(part: JobsSearch) {
    void navigate({
      search: (old) => ({ ...old, cursor: undefined, ...part }),
      replace: true,
    });
  }

  return (
    <search className={css.bar} aria-label="Filter jobs">
      <FilterBox
        label="Search jobs by name"
        placeholder="Search  ( / )"
        icon="search"
        value={search.q ?? ""}
        onChange={(q) => change({ q: q || undefined })}
        className={css.search}
      />
      <SegmentedControl
        aria-label="Whose jobs"
        value={search.owner && search.owner === user?.username ? "mine" : "all"}
        onChange={(whose) => change({ owner: whose === "mine" ? user?.username : undefined })}
        data={[
          { value: "all", label: "All" },
          { value: "mine", label: "Mine" },
        ]}
      />
      <Select
        aria-label="Virtual cluster"
        placeholder="Any virtual cluster"
        data={names ?? NONE}
        value={search.vc ?? null}
        onChange={(vc) => change({ vc: vc ?? undefined })}
        clearable
        searchable={(names?.length ?? 0) > 8}
        w={156}
      />
      <FilterBox
        label="Tags, all of which a job has"
        placeholder="Tags"
        icon="tag"
        value={search.tag?.replaceAll(",", " ") ?? ""}
        onChange={(text) => change({ tag: text.split(/[,\s]+/).join(",") || undefined })}
        className={css.tags}
      />
      <StateChips
        chosen={statesOf(search.state)}
        onChange={(states) => change({ state: states.join(",") || undefined })}
      />
    </search>
  );
}

interface BoxProps {
  label: string;
  placeholder: string;
  icon: IconName;
  value: string;
  onChange: (value: string) => void;
  className: string | undefined;
}

/** Tells its text when the visitor has stopped typing for a moment. */
function FilterBox({ label, placeholder, icon, value, onChange, className }: BoxProps) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  if (known !== value) {
    setKnown(value);
    setTyped(value);
  }
  const settle = useDebouncedCallback((text: string) => onChange(text.trim()), 250);
  return (
    <TextInput
      type="search"
      aria-label={label}
      placeholder={placeholder}
      leftSection={<Icon name={icon} size={14} />}
      value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        settle(event.currentTarget.value);
      }}
      className={className}
    />
  );
}
