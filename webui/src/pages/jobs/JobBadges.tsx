import { Tooltip } from "@mantine/core";
import type { JobSummary } from "@/api/types";
import { badgesOf } from "./badges";
import css from "./JobBadges.module.css";

/** A word for each thing that is out of the ordinary about a job; why, on hover. */
export function JobBadges({ job }: { job: JobSummary }) {
  return badgesOf(job).map(({ word, about, tone }) => (
    <Tooltip key={word} label={about} multiline maw={320}>
      <span className={css.badge} data-tone={tone}>
        {word}
        <span className="sr-only">: {about}</span>
      </span>
    </Tooltip>
  ));
}
