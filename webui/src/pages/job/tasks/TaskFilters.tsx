import { Select, TextInput } from "@mantine/core";
import type { Job, Task, TaskState } from "@/api/types";
import { Icon } from "@/ui/Icon";
import { stateWord } from "@/ui/StateBadge";
import { StateIcon } from "@/ui/StateIcon";
import type { TaskFilter } from "./filter";
import css from "./TaskFilters.module.css";

interface Props {
  job: Job;
  tasks: Task[];
  filter: TaskFilter;
  onChange: (filter: TaskFilter) => void;
}

export function TaskFilters({ job, tasks, filter, onChange }: Props) {
  const counts = Map.groupBy(tasks, (task) => task.state);
  function toggle(state: TaskState) {
    const states = filter.states.includes(state)
      ? filter.states.filter((each) => each !== state)
      : [...filter.states, state];
    onChange({ ...filter, states });
  }
  return (
    <div className={css.bar} role="search" aria-label="Filter tasks">
      <TextInput
        type="search"
        aria-label="Search tasks by name or node"
        placeholder="Task or node  ( / )"
        leftSection={<Icon name="search" size={14} />}
        value={filter.text}
        onChange={(event) => onChange({ ...filter, text: event.currentTarget.value })}
        w={200}
      />
      {job.task_roles.length > 1 ? (
        <Select
          aria-label="Role"
          placeholder="Any role"
          data={job.task_roles.map((role) => role.name)}
          value={filter.role}
          onChange={(role) => onChange({ ...filter, role })}
          clearable
          w={150}
        />
      ) : null}
      <div className={css.states} role="group" aria-label="States">
        {[...counts].map(([state, some]) => (
          <button
            key={state}
            type="button"
            className={css.state}
            aria-pressed={filter.states.includes(state)}
            onClick={() => toggle(state)}
          >
            <StateIcon state={state} size={13} />
            {stateWord(state)}
            <span className="num dim">{some.length.toLocaleString("en")}</span>
          </button>
        ))}
      </div>
    </div>
  );
}
