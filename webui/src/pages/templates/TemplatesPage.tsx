import { SegmentedControl, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { templates, type TemplateSummary } from "@/api/templates";
import { pluralize } from "@/format/numbers";
import { EmptyPage, EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { FilterInput } from "@/ui/FilterInput";
import { FormattedMessage } from "@/ui/FormattedMessage";
import { PageHeader } from "@/ui/PageHeader";
import { Pagination } from "@/ui/Pagination";
import { QueryState } from "@/ui/QueryState";
import { type Order, type TemplatesSearch, toFilter } from "./searchParams";
import { StarButton } from "./StarButton";
import css from "./templates.module.css";

const ORDER_LABELS: { value: Order; label: string }[] = [
  { value: "-stars", label: "Most stars" },
  { value: "-created_at", label: "Newest" },
  { value: "name", label: "Name" },
];

/** Job files that others published, to begin with. */
export function TemplatesPage() {
  const search: TemplatesSearch = useSearch({ from: "/shell/templates" });
  const navigate = useNavigate({ from: "/templates" });
  const list = useQuery(templates(toFilter(search)));
  const change = (part: TemplatesSearch) =>
    void navigate({
      search: (old) => ({ ...old, cursor: undefined, ...part }),
      replace: true,
    });
  const onFirstPage = search.cursor ? () => change({}) : undefined;
  return (
    <>
      <PageHeader title="Templates" note="Job files to start from">
        <ExportButton list="templates" filter={toFilter(search)} />
      </PageHeader>
      <search className={css.bar} aria-label="Filter templates">
        <FilterInput
          label="Search templates"
          placeholder="Search  ( / )"
          icon="search"
          value={search.q ?? ""}
          onChange={(q) => change({ q: q || undefined })}
          className={css.search}
        />
        <SegmentedControl
          aria-label="Whose templates"
          value={search.whose ?? "all"}
          onChange={(whose) =>
            change({ whose: whose === "all" ? undefined : (whose as "mine" | "starred") })
          }
          data={[
            { value: "all", label: "All" },
            { value: "mine", label: "Mine" },
            { value: "starred", label: "Starred" },
          ]}
        />
        <Select
          aria-label="Order"
          data={ORDER_LABELS}
          value={search.order ?? "-stars"}
          onChange={(order) => change({ order: (order ?? undefined) as Order | undefined })}
          allowDeselect={false}
          w={130}
        />
      </search>
      <QueryState
        query={list}
        what="list of templates"
        rows={6}
        height={110}
        onFirstPage={onFirstPage}
      >
        {(page) => (
          <>
            {page.results.length === 0 && onFirstPage ? (
              <EmptyPage onFirstPage={onFirstPage} />
            ) : page.results.length === 0 ? (
              <EmptyState title="No template here">
                {search.whose === "mine"
                  ? "Publish one from the page of a job of yours: Clone, then “Save as template”."
                  : "Nothing matches. Try other words, or all templates."}
              </EmptyState>
            ) : (
              <ul className={css.cards} aria-label="Templates">
                {page.results.map((template) => (
                  <Card key={template.name} template={template} />
                ))}
              </ul>
            )}
            <Pagination page={page} onGo={(cursor) => change({ cursor })} />
          </>
        )}
      </QueryState>
    </>
  );
}

function Card({ template }: { template: TemplateSummary }) {
  return (
    <li className={css.card}>
      <div className={css.head}>
        <Link to="/templates/$name" params={{ name: template.name }} className={css.title}>
          {template.title}
        </Link>
        <StarButton template={template} />
      </div>
      <p className={css.about}>
        <FormattedMessage text={template.description} />
      </p>
      <p className={css.foot}>
        <span>{template.gpus > 0 ? pluralize(template.gpus, "GPU") : "No GPU"}</span>
        <span>{pluralize(template.tasks, "task")}</span>
        <span>{authorLabel(template)}</span>
        {template.listed ? null : <b>Hidden</b>}
      </p>
    </li>
  );
}

/** Who published it, and for whom where that is not everybody. */
export function authorLabel({ shipped, owner, virtual_cluster: vc }: TemplateSummary): string {
  const author = shipped ? "comes with Skep" : owner ? `by ${owner}` : "by a former user";
  return vc ? `${author}, for ${vc}` : author;
}
