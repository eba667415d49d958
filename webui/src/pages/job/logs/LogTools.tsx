import { ActionIcon, Button, SegmentedControl, Tooltip } from "@mantine/core";
import type { LogFilter } from "@/api/logs";
import type { Job, Stream, Task } from "@/api/types";
import { Icon, type IconName } from "@/ui/Icon";
import { AttemptPicker } from "./AttemptPicker";
import { DownloadMenu } from "./DownloadMenu";
import { FindBox } from "./FindBox";
import { TaskPicker } from "./TaskPicker";
import css from "./LogTools.module.css";

interface Props {
  job: Job;
  tasks: Task[];
  filter: LogFilter;
  onChoose: (part: LogFilter) => void;
  wrap: boolean;
  onWrap: (wrap: boolean) => void;
  times: boolean;
  onTimes: (times: boolean) => void;
  needle: string;
  whole: boolean;
  onNeedle: (needle: string) => void;
  found: number[] | null;
  target: number | null;
  onNext: () => void;
  onPrevious: () => void;
  onWhole: (regex: boolean) => void;
  firstError: { busy: boolean; find: () => void };
}

export function LogTools(props: Props) {
  const { job, tasks, filter, onChoose } = props;
  const { rank, attempt, stream } = filter;
  return (
    <div className={css.tools} role="toolbar" aria-label="Log">
      <TaskPicker tasks={tasks} rank={rank} onChoose={(next) => onChoose({ rank: next })} />
      {job.attempt > 1 ? (
        <AttemptPicker
          job={job}
          attempt={attempt}
          onChoose={(next) => onChoose({ attempt: next })}
        />
      ) : null}
      <SegmentedControl
        aria-label="Stream"
        value={stream ?? "both"}
        onChange={(next) => onChoose({ stream: next === "both" ? undefined : (next as Stream) })}
        data={[
          { value: "both", label: "Both" },
          { value: "stdout", label: "stdout" },
          { value: "stderr", label: "stderr" },
        ]}
      />
      <FindBox {...props} />
      <Button
        variant="default"
        leftSection={<Icon name="warning" size={14} />}
        loading={props.firstError.busy}
        onClick={props.firstError.find}
      >
        First error
      </Button>
      <div className={css.right}>
        <Toggle icon="wrap" label="Wrap long lines" on={props.wrap} onChange={props.onWrap} />
        <Toggle icon="clock" label="Show times" on={props.times} onChange={props.onTimes} />
        <DownloadMenu job={job} tasks={tasks} filter={filter} />
      </div>
    </div>
  );
}

interface ToggleProps {
  icon: IconName;
  label: string;
  on: boolean;
  onChange: (on: boolean) => void;
}

function Toggle({ icon, label, on, onChange }: ToggleProps) {
  return (
    <Tooltip label={label}>
      <ActionIcon
        aria-label={label}
        aria-pressed={on}
        variant={on ? "light" : "subtle"}
        color={on ? "honey" : "gray"}
        onClick={() => onChange(!on)}
      >
        <Icon name={icon} />
      </ActionIcon>
    </Tooltip>
  );
}
