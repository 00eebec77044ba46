// Write a summary as a comment of the pull request: one comment, which later runs of the workflow replace.
const fs = require('fs')

const MARK = '<!-- kbench -->'
const LONGEST = 65000 // GitHub refuses comments of more than 65536 characters

module.exports = async ({github, context, file}) => {
  const text = fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : 'kbench ended before the gate; see the log of the job.'
  const cut = text.length > LONGEST ? text.slice(0, LONGEST) + '\n\nThe rest is in the artifact.' : text
  const link = `${context.serverUrl}/${context.repo.owner}/${context.repo.repo}/actions/runs/${context.runId}`
  const body = `${MARK}\n${cut}\n\n[Report and samples](${link})`
  const comments = await github.paginate(github.rest.issues.listComments, {...context.repo, issue_number: context.issue.number})
  const own = comments.find((comment) => comment.user.type === 'Bot' && comment.body.startsWith(MARK))
  if (own) {
    await github.rest.issues.updateComment({...context.repo, comment_id: own.id, body})
  } else {
    await github.rest.issues.createComment({...context.repo, issue_number: context.issue.number, body})
  }
}
