import { useMutation, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { apiOf, dataOf } from "../api/client";
import { ApiError } from "../api/error";
import type { components } from "../api/schema";
import { complaintOf, type RowError, rowErrorsOf, rowsOf } from "../csv-rows";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { mayAct } from "../session";
import { Failure } from "../ui/failure";
import { CheckField, Field } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { PageHead } from "../ui/page-head";
import { Refused } from "../ui/refused";
import { saveFile } from "../ui/save-file";
import { Section } from "../ui/section";
import { Steps } from "../ui/steps";
import { Table } from "../ui/table";

type Report = components["schemas"]["ImportReport"];

const route = getRouteApi("/inside/o/$slug/plants/import");
const PREVIEWED = 5;
const MOST_LISTED = 200;
const EXAMPLE = `name,serialNumber,type,authMethod,externalPlantId,templateId,metadata,latitude,longitude,tag,timeZone
"Roof, east",SN-1,GATEWAY,TOKEN,,,"{""site"": 7}",50.0755,14.4378,north,Europe/Prague
Barn,SN-2,CONTROLLER,,,,,,,,
`;

const [COLUMNS = [], VALUES = []] = rowsOf(EXAMPLE);
const REQUIRED: readonly string[] = ["name", "serialNumber", "type"];

/** A file that was chosen. `rows` are its cells, the header first; null if it is not text in UTF-8. */
interface Chosen {
  name: string;
  text: string;
  rows: string[][] | null;
}

/** Register the plants of a CSV file: choose it, see what will happen, and what is wrong or was registered. */
export function ImportScreen() {
  const texts = useTexts();
  const { user, organization } = route.useRouteContext();
  const queryClient = useQueryClient();
  const [file, setFile] = useState<Chosen | null>(null);
  const register = useMutation({
    mutationFn: ({ text, skipInvalid }: { text: string; skipInvalid: boolean }) =>
      dataOf(
        apiOf(organization.id).POST("/api/v1/plants/import", {
          params: { query: { skipInvalid } },
          body: text,
          bodySerializer: (body) => body,
          headers: { "content-type": "text/csv" },
        }),
      ),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: [organization.id] }),
  });
  const choose = (chosen: Chosen | null) => {
    register.reset();
    setFile(chosen);
  };
  if (!mayAct(user, organization, "OPERATOR")) return <Refused rights={texts.role.OPERATOR} />;
  const step = register.data !== undefined ? 3 : file === null ? 1 : 2;
  return (
    <>
      <PageHead title={texts.import.title} of={organization.name} />
      <Steps names={texts.import.steps} current={step} />
      {register.data === undefined ? (
        <>
          <div className="card">
            <Field
              label={texts.import.file}
              type="file"
              accept=".csv,text/csv"
              disabled={register.isPending}
              // Otherwise, browsers report nothing if the same file is chosen again after it was corrected.
              onClick={({ currentTarget }) => {
                currentTarget.value = "";
                choose(null);
              }}
              onChange={async ({ target: { files } }) => files?.[0] && choose(await read(files[0]))}
            />
            {file === null && <Columns />}
            <div className="toolbar">
              <button type="button" onClick={() => saveFile("plants.csv", EXAMPLE)}>
                {texts.import.example}
              </button>
            </div>
          </div>
          {file !== null && (
            <Preview
              key={file.text}
              file={file}
              isPending={register.isPending}
              onRegister={(skipInvalid) => register.mutate({ text: file.text, skipInvalid })}
            />
          )}
          <RowErrors error={register.error} rows={file?.rows ?? []} />
        </>
      ) : (
        <Result report={register.data} rows={file?.rows ?? []} onAnother={() => choose(null)} />
      )}
    </>
  );
}

/** The columns that a file may have. */
function Columns() {
  const texts = useTexts();
  return (
    <>
      <p>{texts.import.columns}</p>
      <Table
        label={texts.import.columns}
        headings={[texts.import.column, texts.import.required, texts.import.exampleValue]}
      >
        {COLUMNS.map((column, index) => (
          <tr key={column}>
            <th scope="row">
              <code>{column}</code>
            </th>
            <td>{texts.templates.bitValue(REQUIRED.includes(column))}</td>
            <td>
              <code>{VALUES[index]}</code>
            </td>
          </tr>
        ))}
      </Table>
    </>
  );
}

async function read(file: File): Promise<Chosen> {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return { name: file.name, text, rows: rowsOf(text) };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return { name: file.name, text: "", rows: null };
  }
}

interface PreviewProps {
  file: Chosen;
  isPending: boolean;
  onRegister: (skipInvalid: boolean) => void;
}

/** What will happen, and the first rows. */
function Preview({ file, isPending, onRegister }: PreviewProps) {
  const texts = useTexts();
  const locale = useLocale();
  const { organization } = route.useRouteContext();
  const [isSkipping, setSkipping] = useState(false);
  if (file.rows === null) return <p className="hint">{texts.import.notUtf8}</p>;
  const [header = [], ...rows] = file.rows;
  const filled = rows.flatMap((row, index) => (row.some((cell) => cell.trim() !== "") ? [{ index, row }] : []));
  if (filled.length === 0) return <p className="hint">{texts.import.noRows}</p>;
  return (
    <Section title={texts.import.preview} isCard>
      <p>
        {texts.import.will(count(filled.length, locale), filled.length, organization.name)}
        {filled.length > 1 && !isSkipping && ` ${texts.import.allOrNone}`}
      </p>
      <Table headings={header.map((name, index) => ({ label: `${index + 1} ${name}`, content: name }))}>
        {filled.slice(0, PREVIEWED).map(({ index: number, row }) => (
          <tr key={number}>
            {header.map((name, index) => (
              <td key={`${index} ${name}`}>{row[index]}</td>
            ))}
          </tr>
        ))}
      </Table>
      {filled.length > PREVIEWED && (
        <p className="fine">{texts.import.more(count(filled.length - PREVIEWED, locale))}</p>
      )}
      <Form onSubmit={() => onRegister(isSkipping)}>
        <CheckField checked={isSkipping} onChange={({ target }) => setSkipping(target.checked)}>
          {texts.import.skip}
        </CheckField>
        <Buttons action={isPending ? texts.import.running : texts.import.register} disabled={isPending} />
      </Form>
    </Section>
  );
}

/** Why nothing was registered, by row. */
function RowErrors({ error, rows }: { error: Error | null; rows: string[][] }) {
  const texts = useTexts();
  if (!(error instanceof ApiError)) return <Failure error={error} />;
  const { rows: errors, others } = rowErrorsOf(error.details);
  return (
    <>
      <Failure error={new ApiError(error.status, error.code, error.message, others, error.requestId)} />
      {errors.length > 0 && (
        <section className="block" aria-label={texts.import.errors}>
          <ErrorTable errors={errors} rows={rows} />
        </section>
      )}
    </>
  );
}

function ErrorTable({ errors, rows }: { errors: RowError[]; rows: string[][] }) {
  const texts = useTexts();
  const locale = useLocale();
  const [header = []] = rows;
  const cellOf = (row: number, column: string) => rows[row - 1]?.[header.indexOf(column)] ?? "";
  return (
    <>
      <Table
        headings={[
          { label: texts.import.row, kind: "number" },
          texts.fleet.name,
          texts.import.column,
          texts.import.value,
          texts.import.error,
        ]}
      >
        {errors.slice(0, MOST_LISTED).map(({ row, column, complaint }) => (
          <tr key={`${row} ${column} ${complaint}`}>
            <td className="number">{row}</td>
            <th scope="row">
              {cellOf(row, "name")}
              <span className="fine">{cellOf(row, "serialNumber")}</span>
            </th>
            <td>
              <code>{column}</code>
            </td>
            <td className="wrap">{cellOf(row, column)}</td>
            <td className="wrap">{complaint}</td>
          </tr>
        ))}
      </Table>
      {errors.length > MOST_LISTED && (
        <p className="fine">
          {texts.import.moreErrors(count(errors.length - MOST_LISTED, locale), errors.length - MOST_LISTED)}
        </p>
      )}
    </>
  );
}

/** What was registered, and which rows were not. */
function Result({ report, rows, onAnother }: { report: Report; rows: string[][]; onAnother: () => void }) {
  const texts = useTexts();
  const locale = useLocale();
  const { slug } = route.useParams();
  const [header = []] = rows;
  const refused = report.rows.flatMap(({ row, complaints }) =>
    complaints.map((complaint) => ({ row, ...complaintOf(complaint) })),
  );
  const created = report.rows.filter(({ plantId }) => plantId !== null);
  return (
    <>
      <output className="card">
        <strong>{texts.import.created(count(report.created, locale), report.created)}</strong>
        {report.refused > 0 && <span>{texts.import.refused(count(report.refused, locale), report.refused)}</span>}
      </output>
      {refused.length > 0 && (
        <Section title={texts.import.errors}>
          <ErrorTable errors={refused} rows={rows} />
        </Section>
      )}
      {created.length > 0 && (
        <Section title={texts.import.registered}>
          <p>{texts.import.next}</p>
          <Table headings={[{ label: texts.import.row, kind: "number" }, texts.fleet.name]}>
            {created.slice(0, MOST_LISTED).map(({ row, serialNumber, plantId }) => (
              <tr key={row}>
                <td className="number">{row}</td>
                <th scope="row">
                  <Link to="/o/$slug/plants/$plantId/credentials" params={{ slug, plantId: plantId ?? "" }}>
                    {rows[row - 1]?.[header.indexOf("name")] ?? serialNumber}
                  </Link>
                  <span className="fine">{serialNumber}</span>
                </th>
              </tr>
            ))}
          </Table>
          {created.length > MOST_LISTED && (
            <p className="fine">{texts.import.more(count(created.length - MOST_LISTED, locale))}</p>
          )}
        </Section>
      )}
      <div className="toolbar">
        <Link to="/o/$slug/fleet" params={{ slug }} className="button">
          {texts.toFleet}
        </Link>
        <button type="button" onClick={onAnother}>
          {texts.import.another}
        </button>
      </div>
    </>
  );
}
