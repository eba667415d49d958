import { ActionIcon, Button, Popover, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { deleteView, type SavedView, savedViews, saveView } from "@/api/savedViews";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { notifyError, notifySuccess } from "@/ui/notify";
import { fromSaved, isFiltered, type JobsSearch, toSaved } from "./searchParams";
import css from "./JobFilters.module.css";

const NONE: SavedView[] = [];

/** The filters that the user keeps under names: to pick one, to delete one, to keep the present
 * ones. */
export function SavedViewsMenu({ search }: { search: JobsSearch }) {
  const [open, setOpen] = useState(false);
  const [naming, setNaming] = useState(false);
  const query = useQuery(savedViews);
  const { data: views = NONE } = query;
  const current = views.find((view) => isSame(view, search));
  return (
    <>
      <Popover position="bottom-start" opened={open} onChange={setOpen} trapFocus>
        <Popover.Target>
          <Button
            variant="default"
            leftSection={<Icon name="bookmark" size={14} />}
            onClick={() => setOpen(!open)}
            data-filtered={current ? true : undefined}
            className={css.button}
          >
            {current?.name ?? "Views"}
          </Button>
        </Popover.Target>
        <Popover.Dropdown>
          <div className={css.views}>
            <ReadNote query={query} what="list of saved views" />
            {views.length === 0 && !isUnread(query) ? (
              <p className={css.hint}>
                A saved view keeps filters under a name, such as the failed jobs of a week.
              </p>
            ) : null}
            {views.length > 0 ? (
              <ul aria-label="Saved views">
                {views.map((view) => (
                  <ViewRow
                    key={view.id}
                    view={view}
                    current={view === current}
                    onPick={() => setOpen(false)}
                  />
                ))}
              </ul>
            ) : null}
            <Button
              variant="subtle"
              leftSection={<Icon name="plus" size={14} />}
              disabled={!isFiltered(search)}
              onClick={() => {
                setOpen(false);
                setNaming(true);
              }}
            >
              Save the present filters
            </Button>
          </div>
        </Popover.Dropdown>
      </Popover>
      {naming ? (
        <NameDialog search={search} views={views} onClose={() => setNaming(false)} />
      ) : null}
    </>
  );
}

function isSame(view: SavedView, search: JobsSearch): boolean {
  const [saved, now] = [fromSaved(view.filters), fromSaved(toSaved(search))];
  const keys = new Set([...Object.keys(saved), ...Object.keys(now)]) as Set<keyof JobsSearch>;
  return [...keys].every((key) => saved[key] === now[key]);
}

interface RowProps {
  view: SavedView;
  current: boolean;
  onPick: () => void;
}

function ViewRow({ view, current, onPick }: RowProps) {
  const queries = useQueryClient();
  const deleting = useMutation({
    mutationFn: () => deleteView(view.id),
    onError: (error) => notifyError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: savedViews.queryKey }),
  });
  return (
    <li>
      <Link
        to="/jobs"
        search={fromSaved(view.filters)}
        onClick={onPick}
        aria-current={current || undefined}
      >
        {view.name}
      </Link>
      <ActionIcon
        size="sm"
        aria-label={`Delete the view ${view.name}`}
        loading={deleting.isPending}
        onClick={() => deleting.mutate()}
      >
        <Icon name="trash" size={14} />
      </ActionIcon>
    </li>
  );
}

interface NameProps {
  search: JobsSearch;
  views: SavedView[];
  onClose: () => void;
}

function NameDialog({ search, views, onClose }: NameProps) {
  const [name, setName] = useState("");
  const queries = useQueryClient();
  const replaces = views.some((view) => view.name === name.trim());
  const saving = useMutation({
    mutationFn: () => saveView(name.trim(), toSaved(search)),
    onSuccess: async (view) => {
      await queries.invalidateQueries({ queryKey: savedViews.queryKey });
      notifySuccess(`${view.name} is saved`);
      onClose();
    },
  });
  return (
    <FormDialog
      open
      title="Save the present filters"
      verb={replaces ? "Replace" : "Save"}
      mutation={saving}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description="Only you see it. A name that you have already is replaced."
        required
        withAsterisk={false}
        maxLength={64}
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
    </FormDialog>
  );
}
