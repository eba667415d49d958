import { Select } from "@mantine/core";
import type { Job } from "@/api/types";

interface Props {
  job: Job;
  attempt: number | undefined;
  onChoose: (attempt: number | undefined) => void;
}

/** Which placement of the gang wrote the log; newest first, after all of them. */
export function AttemptPicker({ job, attempt, onChoose }: Props) {
  const numbers = Array.from({ length: job.attempt }, (_, at) => String(job.attempt - at));
  return (
    <Select
      aria-label="Attempt"
      data={[
        { value: "", label: "All attempts" },
        ...numbers.map((value) => ({ value, label: `Attempt ${value}` })),
      ]}
      value={attempt === undefined ? "" : String(attempt)}
      onChange={(value) => onChoose(value ? Number(value) : undefined)}
      allowDeselect={false}
      w={128}
    />
  );
}
