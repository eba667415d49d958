import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { me } from "@/api/session";
import {
  changeTemplate,
  deleteTemplate,
  template as templateQuery,
  type Template,
} from "@/api/templates";
import { ParameterField } from "@/features/job-file/ParameterField";
import type { ParameterValue } from "@/features/job-file/jobForm";
import { maySubmit } from "@/features/jobs/NoVirtualCluster";
import { pluralize } from "@/format/numbers";
import { Breadcrumb } from "@/ui/Breadcrumb";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { ErrorState } from "@/ui/EmptyState";
import { lazyPart } from "@/ui/lazyParts";
import { notifyError, notifySuccess } from "@/ui/notify";
import { FormattedMessage } from "@/ui/FormattedMessage";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { StarButton } from "./StarButton";
import { authorLabel } from "./TemplatesPage";
import css from "./templates.module.css";

const JobFile = lazyPart(() => import("./JobFile"));
const SubmitTemplateDialog = lazyPart(() => import("./SubmitTemplateDialog"));

export function TemplatePage() {
  const { name } = useParams({ from: "/shell/templates/$name" });
  const read = useQuery(templateQuery(name));
  if (read.isPending) return <SkeletonRows rows={8} />;
  if (!read.data) {
    return <ErrorState error={read.error} what="template" retry={() => void read.refetch()} page />;
  }
  return <Detail key={name} template={read.data} />;
}

function Detail({ template }: { template: Template }) {
  const { data: user } = useQuery(me);
  return (
    <>
      <PageHeader
        title={template.title}
        above={
          <Breadcrumb>
            <Link to="/templates">Templates</Link>
          </Breadcrumb>
        }
        note={<StarButton template={template} />}
      >
        {user?.is_admin ? <Listed template={template} /> : null}
        {template.may_change && !template.shipped && (template.listed || user?.is_admin) ? (
          <Delete template={template} />
        ) : null}
      </PageHeader>
      <div className={css.detail}>
        <section className={css.side} aria-label="About this template">
          <p className={css.description}>
            <FormattedMessage text={template.description} />
          </p>
          <p className={css.foot}>
            <span>{template.gpus > 0 ? pluralize(template.gpus, "GPU") : "No GPU"}</span>
            <span>{pluralize(template.tasks, "task")}</span>
            <span>{authorLabel(template)}</span>
          </p>
          <Parameters template={template} />
        </section>
        <section className={css.file} aria-label="Job file">
          <Suspense fallback={<SkeletonRows rows={12} height={20} />}>
            <JobFile template={template} />
          </Suspense>
        </section>
      </div>
    </>
  );
}

/** The parameters that are one value each, to be set before it is submitted or edited. */
function Parameters({ template }: { template: Template }) {
  const navigate = useNavigate();
  const { data: user } = useQuery(me);
  const all = Object.entries(template.parameters);
  const known = all.filter((entry): entry is [string, ParameterValue] =>
    ["string", "number", "boolean"].includes(typeof entry[1]),
  );
  const [values, setValues] = useState<Record<string, ParameterValue>>({});
  const [submitting, setSubmitting] = useState(false);
  const changed = Object.fromEntries(
    known.flatMap(([name, value]) => {
      const now = values[name];
      return now === undefined || now === value ? [] : [[name, now]];
    }),
  );
  const edit = () => {
    const parameters = Object.keys(changed).length > 0 ? { parameters: changed } : {};
    void navigate({ to: "/jobs/new", search: { template: template.name, ...parameters } });
  };
  const submits = user ? maySubmit(user) : false;
  return (
    <>
      <form
        className={css.parameters}
        onSubmit={(event) => {
          event.preventDefault();
          if (submits) setSubmitting(true);
          else edit();
        }}
      >
        {known.length > 0 ? <h2>Parameters</h2> : null}
        {known.map(([name, value]) => (
          <ParameterField
            key={name}
            name={name}
            value={values[name] ?? value}
            onChange={(next) => setValues((old) => ({ ...old, [name]: next }))}
          />
        ))}
        {known.length < all.length ? (
          <p className="dim">
            {pluralize(all.length - known.length, "parameter")} with lists or mappings: change them
            in the editor.
          </p>
        ) : null}
        {submits ? <Button type="submit">Check and submit</Button> : null}
        <Button variant="default" onClick={edit}>
          Use this template
        </Button>
        <p className="dim">
          “Use this template” opens it in the editor as a new job; nothing is submitted yet.
        </p>
      </form>
      {submitting ? (
        <Suspense>
          <SubmitTemplateDialog
            template={template}
            parameters={changed}
            onEdit={edit}
            onClose={() => setSubmitting(false)}
          />
        </Suspense>
      ) : null}
    </>
  );
}

function Listed({ template }: { template: Template }) {
  const queries = useQueryClient();
  const changing = useMutation({
    mutationFn: () => changeTemplate(template.name, { listed: !template.listed }),
    onSuccess: (changed) => {
      queries.setQueryData(templateQuery(template.name).queryKey, changed);
      notifySuccess(changed.listed ? "Everybody it is for sees it again" : "It is hidden now");
      return queries.invalidateQueries({ queryKey: ["templates"] });
    },
    onError: (error) => notifyError(error),
  });
  return (
    <Button variant="default" loading={changing.isPending} onClick={() => changing.mutate()}>
      {template.listed ? "Hide" : "Show again"}
    </Button>
  );
}

function Delete({ template }: { template: Template }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const deleting = useMutation({
    mutationFn: () => deleteTemplate(template.name),
    onSuccess: async () => {
      notifySuccess(`${template.title} is deleted`);
      await navigate({ to: "/templates" });
      void queries.invalidateQueries({ queryKey: ["templates"] });
    },
    onError: (error) => notifyError(error),
  });
  return (
    <ConfirmButton
      question={`Delete ${template.title}?`}
      explanation="Jobs that were made from it stay as they are."
      verb="Delete"
      busy={deleting.isPending}
      onConfirm={() => deleting.mutate()}
    >
      Delete
    </ConfirmButton>
  );
}
