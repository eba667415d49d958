import { ActionIcon, Button, Menu, SegmentedControl, Select, Tooltip } from "@mantine/core";
import { logDownloadUrl, type LogFilter, rawLogUrl } from "@/api/logs";
import type { Job, Stream, Task } from "@/api/types";
import { taskName } from "@/format/names";
import { Icon, type IconName } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { FindInput } from "./FindInput";
import { TaskPicker } from "./TaskPicker";
import css from "./LogToolbar.module.css";

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

export function LogToolbar(props: Props) {
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
      <FindInput {...props} />
      <Button
        variant="default"
        leftSection={<Icon name="warning" size={14} />}
        loading={props.firstError.busy}
        onClick={props.firstError.find}
      >
        First error
      </Button>
      {job.tasks > 1 ? (
        <LinkButton
          to="/jobs/$id"
          params={{ id: job.id }}
          search={{ tab: "logs", view: "ranks", attempt }}
          variant="default"
          leftSection={<Icon name="cells" size={14} />}
        >
          By rank
        </LinkButton>
      ) : null}
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

interface AttemptPickerProps {
  job: Job;
  attempt: number | undefined;
  onChoose: (attempt: number | undefined) => void;
}

/** Which placement of the gang wrote the log; newest first, after all of them. */
function AttemptPicker({ job, attempt, onChoose }: AttemptPickerProps) {
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

const STREAMS: Stream[] = ["stdout", "stderr"];
const MAX_LISTED = 50;

interface DownloadMenuProps {
  job: Job;
  tasks: Task[];
  filter: LogFilter;
}

/** What is shown as one file, and the streams of each task as the node wrote them. */
function DownloadMenu({ job, tasks, filter }: DownloadMenuProps) {
  const { rank, attempt } = filter;
  const started = tasks.filter(
    (task) =>
      task.attempt &&
      (rank === undefined || task.rank === rank) &&
      (attempt === undefined || task.attempt.index === attempt),
  );
  return (
    <Menu position="bottom-end" width={220}>
      <Tooltip label="Download whole logs">
        <Menu.Target>
          <ActionIcon aria-label="Download whole logs" disabled={job.attempt === 0}>
            <Icon name="download" />
          </ActionIcon>
        </Menu.Target>
      </Tooltip>
      <Menu.Dropdown mah={360} style={{ overflowY: "auto" }}>
        <Menu.Item component="a" href={logDownloadUrl(job.id, filter)} download={`${job.name}.log`}>
          All of it <span className="dim">{partLabel(filter)}</span>
        </Menu.Item>
        <Menu.Divider />
        {started.slice(0, MAX_LISTED).flatMap((task) =>
          STREAMS.map((stream) => (
            <Menu.Item
              key={`${task.id} ${stream}`}
              component="a"
              href={rawLogUrl(task.attempt?.id ?? "", stream)}
              download={`${taskName(task)}.${stream}.log`}
            >
              {taskName(task)} <span className="dim">{stream}</span>
            </Menu.Item>
          )),
        )}
        {started.length > MAX_LISTED ? (
          <Menu.Label>Choose a task to download one of the others</Menu.Label>
        ) : null}
      </Menu.Dropdown>
    </Menu>
  );
}

function partLabel({ rank, attempt, stream }: LogFilter): string {
  const whose = rank === undefined ? "every task" : "this task";
  const when = attempt === undefined ? "" : `, attempt ${attempt}`;
  return `of ${whose}${when}, ${stream ?? "both streams"}`;
}
