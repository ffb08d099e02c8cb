import { useMutation, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useRouter } from "@tanstack/react-router";
import { api, dataOf } from "../api/client";
import { noteSession, noteUser } from "../api/session-clock";
import { useTexts } from "../i18n";
import { sessionQuery } from "../session";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Form } from "../ui/form";
import { FrontDoor } from "../ui/front-door";

const route = getRouteApi("/login");

export function LoginScreen() {
  const texts = useTexts();
  const router = useRouter();
  const queryClient = useQueryClient();
  const { next } = route.useSearch();
  const login = useMutation({
    mutationFn: (body: { email: string; password: string }) => dataOf(api.POST("/api/v1/auth/login", { body })),
    onSuccess: async ({ user }) => {
      noteUser(user.id);
      noteSession();
      // Nothing that another user read in this tab may be shown.
      queryClient.clear();
      queryClient.setQueryData(sessionQuery.queryKey, user);
      router.history.push(`${router.basepath}${next ?? "/"}`);
    },
  });
  return (
    <FrontDoor title={texts.login.title}>
      {next && !login.error && <p className="hint">{texts.login.expired}</p>}
      <Form
        className=""
        onSubmit={(values) =>
          login.mutate({ email: String(values.get("email")), password: String(values.get("password")) })
        }
      >
        <Field label={texts.login.email} name="email" type="email" autoComplete="username" required />
        <Field label={texts.login.password} name="password" type="password" autoComplete="current-password" required />
        <Failure error={login.error} />
        <button type="submit" className="primary" disabled={login.isPending}>
          {texts.login.submit}
        </button>
      </Form>
      <Link to="/forgot">{texts.login.forgotten}</Link>
    </FrontDoor>
  );
}
